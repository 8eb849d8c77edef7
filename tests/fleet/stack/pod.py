"""One Pod of a stack as a process that is started again when it ends, as a kubelet does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.fleet.stack.harness import Server
from tests.fleet.stack.test_processes import QUIET
from tests.manager_cli.program import Program


@dataclass
class Pod:
    """`manager run` for a data plane, in one role."""

    hub: Server
    plane: Server
    target: str
    role: str
    arguments: tuple[str, ...] = ()
    """Further arguments."""
    programs: list[Program] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Pod]:
        """Run it for the length of the block; it is killed then."""
        kubelet = asyncio.create_task(self._keep())
        try:
            yield self
        finally:
            kubelet.cancel()
            await asyncio.gather(kubelet, return_exceptions=True)

    @property
    def output(self) -> str:
        """What all of its processes printed."""
        return "".join(each.output for each in self.programs)

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return len(self.programs) - 1

    async def _keep(self) -> None:
        while True:
            program = await Program.start(
                "run",
                *("--kubeconfig", self.hub.environment.kubeconfig("manager")),
                *("--data-plane-kubeconfig", self.plane.environment.kubeconfig("manager")),
                f"--target-namespace={self.target}",
                f"--role={self.role}",
                *self.arguments,
                *QUIET,
            )
            self.programs.append(program)
            async with program:
                await program.wait(timeout=3600)
            await asyncio.sleep(1)
