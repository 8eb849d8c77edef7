"""Creation, update and deletion: handled once each, and recorded out of the annotations."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime import kopf
from ctrlruntime.envtest.eventually import eventually_holds

from .support import BOTH, Bench

pytestmark = pytest.mark.criterion("D-50")


@BOTH
async def test_creation_update_and_deletion_are_handled_once_each(bench: Bench) -> None:
    @kopf.on.create("kopfexamples")
    def created(spec: kopf.Spec, name: str, **_: Any) -> Any:
        bench.calls.append("created")
        return {"message": f"{name} {spec['field']}"}

    @kopf.on.update("kopfexamples")
    async def updated(old: Any, new: Any, diff: kopf.Diff, **_: Any) -> None:
        change = (old["spec"]["field"], new["spec"]["field"])
        assert list(diff) == [("change", ("spec", "field"), *change)]
        bench.calls.append(f"updated to {diff[0].new}")

    @kopf.on.delete("kopfexamples")
    def deleted(**_: Any) -> None:
        bench.calls.append("deleted")

    async with bench.operator():
        await bench.create()
        assert await bench.check_status(lambda status: "created" in status) == {
            "created": {"message": "a value"}
        }
        found = await bench.read()
        assert found is not None
        assert set(found["metadata"]["annotations"]) == {"someannotation"}
        await bench.patch({"spec": {"field": "other"}})
        await bench.check_calls("created", "updated to other")
        # The finalizer, and a status for each cause; the last one follows its handler.
        await eventually_holds(lambda: bench.writes() == 3)
    await bench.patch({"spec": {"field": "third"}})
    async with bench.operator():
        await bench.check_calls("created", "updated to other", "updated to third")
        await bench.delete()
        await bench.check_gone()
        await bench.check_calls("created", "updated to other", "updated to third", "deleted")
