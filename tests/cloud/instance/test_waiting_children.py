"""An Instance shows what one of its subresources waits for."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cloud.common import TaskStatus
from ctrlruntime.api import ObjectMeta
from internal.cloud.instance.order import Child
from internal.cloud.instance.status import _sentence
from internal.cloud.subresource import Subresource
from internal.cloud.subresources import SUBRESOURCES

MESSAGE = "Use `kubectl label secret s a=true`"


@pytest.mark.criterion("S-F5")
@pytest.mark.parametrize("subresource", SUBRESOURCES, ids=lambda each: each.kind.__name__)
@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("SecretNotLabelled", f"does not begin: {MESSAGE}."),
        ("Pending", "is about to begin."),
    ],
)
def test_the_reason_why_a_subresource_does_not_begin_is_shown(
    subresource: Subresource[Any], reason: str, shown: str
) -> None:
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "message": MESSAGE,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = TaskStatus.model_validate(
        {"observedGeneration": 1, "phase": "Pending", "message": MESSAGE, "conditions": [ready]}
    )
    metadata = ObjectMeta(name="src-1", generation=1)
    made = subresource.kind.model_construct(metadata=metadata, status=status)
    child = Child(subresource=subresource, object=made)
    assert _sentence(child, [child], "src-1 -n a") == f"{child.kind} {shown}"
