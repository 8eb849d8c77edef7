"""What `kubectl get -o wide` prints of an object, by column."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from ctrlruntime.api.resource import Resource
from ctrlruntime.envtest import Environment
from tests.envtest.kubectl.binaries import provisioned
from tests.envtest.kubectl.runner import Kubectl


async def printed(
    environment: Environment, kind: type[Resource[Any, Any]], name: str, namespace: str
) -> dict[str, str]:
    """Return the cells of one object by heading; an empty text for a cell that is not printed."""
    user = environment.kubeconfig("admin", direct=True)
    kubectl = Kubectl(provisioned(), user, environment.folder, namespace)
    group = f"{kind.mapping().plural}.{kind.gvk().group}"
    out = await asyncio.to_thread(kubectl, "get", group, name, "-o", "wide")
    return cells(*out.splitlines())


def cells(heading: str, row: str) -> dict[str, str]:
    """Return the cells below each heading: columns begin where their heading does."""
    found = list(re.finditer(r"\S+(?: \S+)*", heading))
    ends = [item.start() for item in found[1:]] + [None]
    return {
        item.group(): row[item.start() : end].strip() for item, end in zip(found, ends, strict=True)
    }
