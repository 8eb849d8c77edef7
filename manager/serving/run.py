"""`manager run`: connect, add the controllers, run until requested to stop."""

import os
from contextlib import AsyncExitStack
from dataclasses import replace

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager
from ctrlruntime.manager.logs import configure
from manager.console.serve import serve_console
from manager.options import Role, RunOptions
from manager.serving.shards import with_slots
from manager.serving.tracing import exported_traces
from manager.systems import load_systems


async def run_manager(options: RunOptions) -> None:
    """Run until SIGTERM or SIGINT. Raises what made the manager stop."""
    systems = load_systems(options.systems)
    logger = configure(format=options.log_format, level=options.log_level)
    async with AsyncExitStack() as stack:
        kubeconfig = options.kubeconfig
        if options.embedded:
            from manager.demo.embedded import EmbeddedCluster  # what no cluster's manager needs

            cluster = await stack.enter_async_context(EmbeddedCluster())
            kubeconfig = cluster.kubeconfig("manager")
            logger.info("Embedded API server", kubeconfig=str(cluster.kubeconfig("admin")))
        config = await Config.load(kubeconfig, options.context)
        provider = await stack.enter_async_context(exported_traces(os.environ, logger))
        runtime = replace(options.manager_options(), tracer_provider=provider)
        if options.data_plane_kubeconfig is not None:
            from manager.serving.stack import run_stack  # what only data planes need

            await run_stack(options, config, runtime, logger)
            return
        manager = Manager(config, runtime, logger=logger)
        options = with_slots(options, manager)
        if options.role in {None, Role.CONTROLLERS} or options.shards:
            for add in systems:
                await add(manager, options, config)
        elif options.role is Role.ADMISSION:
            from manager.controllers.tenancy_admission import add_tenancy_admission

            add_tenancy_admission(manager, options.tenancy)
        serve_console(manager, options.console_options())
        await manager.start()
