"""Generated files: what they are called, whether those on disk are current, how they are written."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ctrlruntime.api.kinds import GroupKind, Manifest
from ctrlruntime.api.resource import Resource
from ctrlruntime.webhook.conversion import Spoke, missing_conversion

from .crd import SchemaOptions, crds_of, file_name
from .document import to_yaml
from .errors import SchemaWarning
from .permissions import Rule, roles
from .webhook import (
    SERVICE_NAME,
    SERVICE_NAMESPACE,
    Webhook,
    webhook_configurations,
    webhook_conversion,
)

__all__ = [
    "Files",
    "crd_files",
    "crd_manifests",
    "drift",
    "rbac_files",
    "stale",
    "webhook_files",
    "write",
]

Files = Mapping[str, str]
"""Texts by path relative to the output directory, such as ``crd/bases/example.com_websites.yaml``."""

CRD_DIRECTORY = "crd/bases"


def crd_files(
    kinds: Iterable[type[Resource[Any, Any]]],
    options: SchemaOptions | None = None,
    *,
    service_name: str = SERVICE_NAME,
    service_namespace: str = SERVICE_NAMESPACE,
) -> dict[str, str]:
    """One file for each kind, under ``crd/bases``: see :func:`crd_manifests`."""
    made = crd_manifests(
        kinds, options, service_name=service_name, service_namespace=service_namespace
    )
    return {f"{CRD_DIRECTORY}/{file_name(crd)}": to_yaml(crd) for crd in made}


def crd_manifests(
    kinds: Iterable[type[Resource[Any, Any]]],
    options: SchemaOptions | None = None,
    *,
    service_name: str = SERVICE_NAME,
    service_namespace: str = SERVICE_NAMESPACE,
) -> list[Manifest]:
    """Return the CRDs of the kinds, in the order of their file names.

    A kind with a version that has ``to_hub`` and ``from_hub`` is converted by the webhooks of the service. Versions
    with other schemas and no conversion are a SchemaWarning.
    """
    known = list(kinds)
    conversion = webhook_conversion(service_name, service_namespace)
    converted = {kind.gvk().group_kind for kind in known if issubclass(kind, Spoke)}
    made = crds_of(known, options)
    for crd in made:
        spec = crd["spec"]
        if GroupKind(spec["group"], spec["names"]["kind"]) not in converted:
            _warn_of_versions(crd)
        elif len(spec["versions"]) > 1:
            spec["conversion"] = conversion
    return made


def _warn_of_versions(crd: Manifest) -> None:
    """Warn of versions that the server would not convert, though they differ."""
    first, *others = (each["schema"] for each in crd["spec"]["versions"])
    if any(each != first for each in others):
        warnings.warn(
            f"{missing_conversion(crd)}, once a class has to_hub and from_hub",
            SchemaWarning,
            stacklevel=2,
        )


def rbac_files(rules: Iterable[Rule], role_name: str = "manager-role") -> dict[str, str]:
    """``rbac/role.yaml``; nothing if there are no rules."""
    manifests = roles(rules, role_name)
    return {"rbac/role.yaml": to_yaml(manifests)} if manifests else {}


def webhook_files(webhooks: Iterable[Webhook]) -> dict[str, str]:
    """``webhook/manifests.yaml``; nothing if there are no webhooks."""
    manifests = webhook_configurations(webhooks)
    return {"webhook/manifests.yaml": to_yaml(manifests)} if manifests else {}


def write(
    files: Files, directory: Path, *, once: Files | None = None, owned: Collection[str] = ()
) -> list[Path]:
    """Write what changed and remove CRDs that the code no longer has; the paths that changed.

    ``once``: files that are written where there are none. ``owned``: files that go where ``files`` lacks them.
    """
    changed: list[Path] = []
    files = {**{n: t for n, t in (once or {}).items() if not (directory / n).exists()}, **files}
    for name, text in sorted(files.items()):
        path = directory / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        changed.append(path)
    for path in stale(files, directory, owned):
        path.unlink()
        changed.append(path)
    return changed


def drift(
    files: Files, directory: Path, *, once: Files | None = None, owned: Collection[str] = ()
) -> str:
    """How the files on disk differ from the code, as a unified diff; empty if they do not. See :func:`write`."""
    parts: list[str] = []
    files = {**{n: t for n, t in (once or {}).items() if not (directory / n).exists()}, **files}
    for name, text in sorted(files.items()):
        path = directory / name
        old = path.read_text("utf-8") if path.exists() else ""
        parts += _diff(old, text, str(path))
    for path in stale(files, directory, owned):
        parts += _diff(path.read_text("utf-8"), "", str(path))
    return "".join(parts)


def stale(files: Files, directory: Path, owned: Collection[str] = ()) -> list[Path]:
    """Return files on disk that are no more: ``owned``, and CRDs of groups that are generated here."""
    gone = [directory / name for name in owned if name not in files]
    prefixes = tuple({f"{Path(name).name.partition('_')[0]}_" for name in _crds(files)})
    crds = (directory / CRD_DIRECTORY).glob("*.yaml") if prefixes else ()
    gone += [
        path
        for path in crds
        if path.name.startswith(prefixes) and f"{CRD_DIRECTORY}/{path.name}" not in files
    ]
    return sorted(path for path in gone if path.exists())


def _crds(files: Files) -> list[str]:
    return [name for name in files if name.startswith(f"{CRD_DIRECTORY}/")]


def _diff(old: str, new: str, path: str) -> list[str]:
    lines = difflib.unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"{path} (on disk)",
        f"{path} (from code)",
    )
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]
