"""`manager run`: connect, add the controllers, run until told to stop."""

import os
from contextlib import AsyncExitStack
from dataclasses import replace

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager
from ctrlruntime.manager.logs import configure
from manager.controllers.cloud import add_cloud
from manager.controllers.cosmos import add_cosmos
from manager.controllers.cosmos_image import with_sidecar_image
from manager.controllers.runs import with_own_image
from manager.controllers.tenancy import add_tenancy
from manager.options import RunOptions
from manager.tracing import exported_traces


async def run_manager(options: RunOptions) -> None:
    """Run until SIGTERM or SIGINT. Raises what made the manager stop."""
    logger = configure(format=options.log_format, level=options.log_level)
    async with AsyncExitStack() as stack:
        kubeconfig = options.kubeconfig
        if options.embedded:
            from manager.embedded import EmbeddedCluster  # what no cluster's manager needs

            cluster = await stack.enter_async_context(EmbeddedCluster())
            kubeconfig = cluster.kubeconfig("manager")
            logger.info("Embedded API server", kubeconfig=str(cluster.kubeconfig("admin")))
        config = await Config.load(kubeconfig, options.context)
        provider = await stack.enter_async_context(exported_traces(os.environ, logger))
        runtime = replace(options.manager_options(), tracer_provider=provider)
        manager = Manager(config, runtime, logger=logger)
        if "tenancy" in options.systems:
            add_tenancy(manager, options.tenancy)
        if "cloud" in options.systems:
            runs = await with_own_image(options.cloud.runs, config, options.own_namespace)
            add_cloud(manager, replace(options.cloud, runs=runs))
        if "cosmos" in options.systems:
            cosmos = await with_sidecar_image(options.cosmos, config, options.own_namespace)
            add_cosmos(manager, cosmos)
        await manager.start()
