"""Options of `manager operator`, and its run: connect, add the controllers, run until it is stopped."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.logs import configure
from ctrlruntime.manager.options import SERVICE_ACCOUNT_NAMESPACE
from ctrlruntime.outbound_addresses import ALLOWED, allowed_environment
from internal.fleet.stack_builder import StackOptions
from manager.console.options import ConsoleOptions
from manager.console.serve import serve_console
from manager.controllers.fleet import OperatorOptions, add_operator
from manager.flags.stack import BY_DEFAULT
from manager.own_image import OwnImageUnknown, own_image
from manager.serving.served_run import ServedRun
from manager.serving.tracing import exported_traces

OPERATOR_LEASE: Final = "fleet-operator.ctrlruntime.dev"


class NoStackImage(ValueError):
    """The image of stacks is not known. The message has the flag that names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRun(ServedRun):
    """What `manager operator` was given."""

    stack_image: str = ""
    stack_workers: int = 1
    stack_systems: tuple[str, ...] = BY_DEFAULT
    unrestricted_hub_secrets: bool = False
    """Let stacks read all Secrets of the hub."""
    leader_election_id: str = OPERATOR_LEASE
    console: ConsoleOptions = field(default_factory=ConsoleOptions)
    log_format: Literal["json", "console"] = "json"
    log_level: str = "info"

    def manager_options(self) -> ManagerOptions:
        """Return the runtime's part of the options."""
        return self.served_options("fleet-operator")


def system_arguments(systems: Collection[str]) -> tuple[str, ...]:
    """Return the arguments of stacks that run these systems; none for the default, which rolls no Pods."""
    if set(systems) == set(BY_DEFAULT):
        return ()
    return tuple(f"--system={name}" for name in sorted(systems))


async def run_operator(options: OperatorRun) -> None:
    """Run until SIGTERM or SIGINT. Raises what made the operator stop."""
    logger = configure(format=options.log_format, level=options.log_level)
    async with AsyncExitStack() as stack:
        config = await Config.load(options.kubeconfig, options.context)
        image = options.stack_image or await _own_image(config)
        provider = await stack.enter_async_context(exported_traces(os.environ, logger))
        runtime = replace(options.manager_options(), tracer_provider=provider)
        manager = Manager(config, runtime, logger=logger)
        stacks = StackOptions(
            image=image,
            workers=options.stack_workers,
            restrict_hub_secrets=not options.unrestricted_hub_secrets,
            arguments=system_arguments(options.stack_systems),
            allow_addresses=allowed_environment().get(ALLOWED, ""),
        )
        add_operator(manager, OperatorOptions(stack=stacks))
        serve_console(manager, options.console)
        await manager.start()


async def _own_image(config: Config) -> str:
    """Return the image of this process. Raises NoStackImage."""
    advice = "name the image of stacks with --stack-image"
    try:
        namespace = SERVICE_ACCOUNT_NAMESPACE.read_text().strip()
    except OSError:
        raise NoStackImage(
            f"outside of a cluster there is no image of the operator: {advice}"
        ) from None
    try:
        return await own_image(config, namespace)
    except OwnImageUnknown as error:
        raise NoStackImage(f"stacks run in the operator's image, but {error}: {advice}") from error
