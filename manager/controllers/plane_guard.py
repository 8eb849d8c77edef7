"""The data plane of a stack is the one that was proved: at the start, while it runs, and when its kubeconfig changes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client import Client, Config
from ctrlruntime.client.kubeconfig import ConfigError
from ctrlruntime.clock import utc_now
from internal.fleet.plane_access import LARGEST, PlaneAccess, access_by, digest_of
from internal.fleet.plane_check import FAILURES, NAMESPACE, identify, identity_of
from internal.fleet.targets import TargetError

PERIOD: Final = 5.0
"""Seconds between two looks at the file of the kubeconfig, and until an ended watch is opened again."""
WATCH_SECONDS: Final = 120.0
"""Of one watch of the identity."""
RETRY: Final = 5.0
"""Seconds between two attempts to reach the data plane at the start."""
TIMEOUT: Final = 10.0
"""Seconds that the data plane of a changed kubeconfig has for an answer."""


class DataPlaneChanged(ConfigError):
    """The kubeconfig leads to another data plane than the one that was proved."""

    def __init__(self, found: str, proved: str) -> None:
        super().__init__(
            f"DataPlaneChanged: the kubeconfig leads to data plane {found}, and this stack is of {proved}; correct the "
            "kubeconfig, or remove the stack and deploy it again"
        )


def read_access(path: Path) -> PlaneAccess:
    """Read the kubeconfig of a data plane, by the operator's rules. Raises ConfigError, which shows none of the content."""
    try:
        return _checked(_content(path))
    except TargetError as error:
        raise ConfigError(f"{path}: {error}") from None


async def prove(config: Config, expected: str, logger: FilteringBoundLogger) -> str:
    """Return the id of a data plane, as soon as it answers. Raises DataPlaneChanged if another one is expected."""
    async with Client.connect(config, logger=logger) as client:
        while True:
            try:
                found = await identify(client)
                break
            except FAILURES as error:
                logger.error("The data plane cannot be identified; trying again", error=str(error))
            await asyncio.sleep(RETRY)
    if expected and found != expected:
        raise DataPlaneChanged(found, expected)
    return found


@dataclass(slots=True)
class PlaneGuard:
    """Ends the process once the data plane is another one: by a watch of its `kube-system`, and by each change of the file.

    A changed kubeconfig is not used before the next start, which the operator brings about once it has checked it.
    """

    proved: str
    """The data plane's id."""
    access: PlaneAccess
    """The kubeconfig that is in use."""
    path: Path
    logger: FilteringBoundLogger
    period: float = PERIOD

    needs_leader_election = False

    def __repr__(self) -> str:
        return "PlaneGuard()"

    async def start(self) -> None:
        """Raise DataPlaneChanged once that is so."""
        async with Client.connect(self.access.config, logger=self.logger) as client:
            tasks = [
                asyncio.create_task(self._follow_server(client), name="identity of the data plane"),
                asyncio.create_task(self._follow_file(), name="kubeconfig of the data plane"),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow_server(self, client: Client) -> None:
        """Watch the identity, from no version on: each new connection begins with what that server has."""
        while True:
            try:
                name, uid = await identity_of(client)
                self._check(uid)
                events = client.watch(
                    NAMESPACE, fields={"metadata.name": name}, timeout=WATCH_SECONDS
                )
                async with aclosing(events):
                    async for kind, found in events:
                        if kind != "DELETED":
                            self._check(str(found["metadata"]["uid"]))
            except FAILURES as error:
                self.logger.debug("Identity of the data plane is not watched", error=str(error))
            await asyncio.sleep(self.period)

    async def _follow_file(self) -> None:
        seen = self.access.digest
        while True:
            await asyncio.sleep(self.period)
            seen = await self._check_file(seen)

    def _check(self, found: str) -> None:
        if found != self.proved:
            raise DataPlaneChanged(found, self.proved)

    async def _check_file(self, seen: str) -> str:
        """Check the file unless it is as it was. Return its hash; the former one while its data plane does not answer."""
        try:
            content = await asyncio.to_thread(_content, self.path)
        except ConfigError as error:
            self.logger.warning("The kubeconfig of the data plane cannot be read", error=str(error))
            return seen
        digest = digest_of(content)
        if digest == seen:
            return seen
        try:
            access = _checked(content)
        except TargetError as error:
            self.logger.error(
                "Changed kubeconfig refused; the former one stays in use", error=str(error)
            )
            return digest
        return digest if await self._is_same(access.config) else seen

    async def _is_same(self, config: Config) -> bool:
        """Return whether a kubeconfig leads to the data plane; False without an answer. Raises DataPlaneChanged."""
        try:
            async with asyncio.timeout(TIMEOUT), Client.connect(config) as client:
                found = await identify(client)
        except FAILURES as error:
            self.logger.warning(
                "Changed kubeconfig: no answer from its data plane", error=str(error)
            )
            return False
        self._check(found)
        self.logger.info(
            "Changed kubeconfig of the same data plane; it is used from the next start on"
        )
        return True


def _checked(content: bytes) -> PlaneAccess:
    """Read a kubeconfig whose certificate has not expired. Raises TargetError."""
    access = access_by(content)
    access.check(utc_now())
    return access


def _content(path: Path) -> bytes:
    """Return what a file has, at most one byte more than is allowed. Raises ConfigError."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the kubeconfig {path}: {error.strerror}") from error
