"""Ephemeral instances: made with a few words, through the API server alone, gone when their lease ends.

Nothing is written to git.
"""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from apis.cloud import Instance, ReleaseChannel
from ctrlruntime.client import AlreadyExists, Client, NotFound
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import removal_of, remove_object
from internal.cloud.labels import INSTANCE_TYPE
from internal.cloud.leases import LeaseRefused, is_ephemeral, leased, unfinished, with_lease

FIELD_MANAGER = "manager-ephemeral"
LONGEST = 30
"""Characters of a name."""


class NoName(ValueError):
    """No name can be made. The message names the remedy."""


def sanitized(branch: str) -> str:
    """Return a name from a branch: lower case letters, digits and dashes, 30 at most, a letter first.

    Raises NoName if nothing is left.
    """
    name = re.sub(r"[^a-z0-9]+", "-", branch.lower()).strip("-")
    name = name.lstrip("-0123456789")[:LONGEST].rstrip("-")
    if not name:
        raise NoName(f"no name can be made of the branch {branch!r}: give one with --name")
    return name


def current_branch(folder: Path) -> str:
    """Return the branch that is checked out. Reads only. Raises NoName."""
    command = ["git", "-C", str(folder), "symbolic-ref", "--quiet", "--short", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        raise NoName("this is no git branch to be named after: give a name with --name") from None
    return found.stdout.strip()


@dataclass(frozen=True, slots=True)
class Deployed:
    """What became of a deployment."""

    instance: Instance
    created: bool
    """False: its creation was under way already."""


@dataclass(frozen=True, slots=True)
class Ephemerals:
    """The ephemeral instances of one namespace."""

    client: Client
    namespace: str
    clock: Callable[[], datetime]

    async def deploy(
        self, name: str, version: str, lease: timedelta, base: Mapping[str, Any] | None = None
    ) -> Deployed:
        """Make an instance, or find the one whose creation is under way.

        `base` is a spec to start from. Raises LeaseRefused.
        """
        manifest = manifest_of(name, self.namespace, version, self.clock() + lease, base or {})
        try:
            made = await self.client.create(
                Instance.from_manifest(manifest), field_manager=FIELD_MANAGER
            )
        except AlreadyExists:
            return Deployed(await self._under_way(name, version), created=False)
        return Deployed(made, created=True)

    async def _under_way(self, name: str, version: str) -> Instance:
        found = await self.get(name)
        if found.metadata.deletion_timestamp is not None:
            raise LeaseRefused(f"{name} is being deleted: wait until it is gone")
        if not unfinished(found):
            raise LeaseRefused(
                f"{name} already exists, use `manager ephemeral upgrade {version} --name {name}`"
            )
        if found.spec.wanted_version == version:
            return found
        return await self._change(found, found.spec.version_change(version))

    async def upgrade(self, name: str, version: str) -> Instance:
        """Bring an instance to another version. Raises LeaseRefused."""
        found = await self.get(name)
        reason = unfinished(found)
        if reason:
            raise LeaseRefused(f"{name} is not completed yet ({reason}): wait until it is")
        return await self._change(found, found.spec.version_change(version))

    async def set_lease(self, name: str, end_of: Callable[[Instance], datetime]) -> Instance:
        """Give the lease another end, as `end_of` returns it for the current instance. Raises LeaseRefused."""
        found = await self.get(name)
        return await self._change(found, {"instanceFeatures": leased(found, end_of(found))})

    async def delete(self, name: str) -> None:
        """Delete an instance. Raises LeaseRefused."""
        found = await self.get(name)
        metadata = {"name": name, "namespace": self.namespace, "uid": found.metadata.uid}
        removal = removal_of(Instance.mapping(), metadata, Cause.REQUESTED, Evidence.CERTAIN)
        held = await remove_object(self.client, Instance.mapping(), removal)
        if held is not None:
            raise LeaseRefused(held.message)

    async def get(self, name: str) -> Instance:
        """One ephemeral instance. Raises LeaseRefused for one that is none or is not there."""
        try:
            found = await self.client.get(Instance, name, namespace=self.namespace)
        except NotFound:
            raise LeaseRefused(
                f"there is no instance {name} in {self.namespace}; `manager ephemeral list` shows "
                "which there are"
            ) from None
        if not is_ephemeral(found.spec.instance_features):
            raise LeaseRefused(f"{name} is not ephemeral: it is not touched")
        return found

    async def list(self) -> Sequence[Instance]:
        """All ephemeral instances, by name."""
        found = await self.client.list(Instance, self.namespace)
        chosen = [item for item in found if is_ephemeral(item.spec.instance_features)]
        return sorted(chosen, key=lambda item: item.metadata.name or "")

    async def _change(self, found: Instance, spec: Mapping[str, Any]) -> Instance:
        """Raise Conflict if another client changed the instance in the meantime."""
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": spec}
        return await self.client.patch(
            Instance,
            found.metadata.name or "",
            patch,
            namespace=self.namespace,
            field_manager=FIELD_MANAGER,
        )


_REPLACED = frozenset({"deletionProtection", "sourcegraphVersion"})


def manifest_of(
    name: str, namespace: str, version: str, end: datetime, base: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a new ephemeral instance: not protected from deletion, and skipped by bulk upgrades. Pure."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {INSTANCE_TYPE: "internal"},
        },
        "spec": {
            **{field: value for field, value in base.items() if field not in _REPLACED},
            "version": version,
            "releaseChannel": ReleaseChannel.PAUSE.value,
            "instanceFeatures": with_lease(base.get("instanceFeatures") or {}, end),
            "debug": {**(base.get("debug") or {}), "enableDeletionProtection": False},
        },
    }
