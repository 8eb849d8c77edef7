"""The same random requests to a real API server and to the model: the same answers.

Set CTRLRUNTIME_ORACLE_URL and CTRLRUNTIME_ORACLE_TOKEN to a server with custom resources (1.36);
CTRLRUNTIME_ORACLE_STEPS and CTRLRUNTIME_ORACLE_SEED choose how many and which.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ctrlruntime.envtest.schema.registry import SchemaRegistry
from tests.envtest.merge.oracle import APPLY, MERGE, URL, Oracle
from tests.envtest.merge.widgets import CRD, GROUP, Model, applied, applied_status, patched

pytestmark = [
    pytest.mark.skipif(not URL, reason="CTRLRUNTIME_ORACLE_URL names no server"),
    pytest.mark.timeout(1800),
]

_PATH = f"/apis/{GROUP}/v1/namespaces/merge-differential/widgets"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_LENGTH = 15


@pytest.fixture(name="oracle")
def _oracle() -> Iterator[Oracle]:
    oracle = Oracle()
    crd = f"{_CRDS}/widgets.{GROUP}"
    oracle.call("DELETE", crd)
    _until(lambda: oracle.call("GET", crd)[0] == 404)
    _until(lambda: oracle.call("POST", _CRDS, CRD)[0] == 201)
    _until(lambda: oracle.call("PATCH", f"{_PATH}/probe", {}, MERGE)[1] != "404 page not found\n")
    _until(lambda: oracle.call("GET", _PATH)[0] == 200)
    yield oracle
    oracle.call("DELETE", f"{_CRDS}/widgets.{GROUP}")
    oracle.close()


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _view(obj: dict[str, Any] | None) -> Any:
    """An object as both sides must agree on it: times count only as present or absent."""
    if obj is None:
        return None
    metadata = obj["metadata"]
    managed = {
        (e["manager"], e["operation"], e["apiVersion"], e.get("subresource", "")): (
            e["fieldsV1"],
            "time" in e,
        )
        for e in metadata.get("managedFields", ())
    }
    kept = {
        key: value
        for key, value in metadata.items()
        if key in ("labels", "annotations", "finalizers")
    }
    return {key: obj.get(key) for key in ("spec", "status")}, kept, managed


def test_random_sequences_agree_with_the_real_server(oracle: Oracle) -> None:
    seed = int(os.environ.get("CTRLRUNTIME_ORACLE_SEED", "1"))
    steps = int(os.environ.get("CTRLRUNTIME_ORACLE_STEPS", "600"))
    registry = SchemaRegistry()
    codes: dict[int, int] = {}
    for sequence in range(steps // _LENGTH):
        rng = random.Random(seed * 1_000_003 + sequence)
        name = f"w{seed}-{sequence}"
        model = Model(registry)
        history: list[str] = []
        last: list[Any] = []
        for _ in range(_LENGTH):
            code = _step(oracle, model, rng, name, history, last)
            codes[code] = codes.get(code, 0) + 1
        oracle.call("PATCH", f"{_PATH}/{name}", {"metadata": {"finalizers": None}}, MERGE)
        oracle.call("DELETE", f"{_PATH}/{name}")
    print(f"seed {seed}: {codes}")
    assert codes.get(409, 0) > 0


def _step(
    oracle: Oracle,
    model: Model,
    rng: random.Random,
    name: str,
    history: list[str],
    last: list[Any],
) -> int:
    kind = rng.randrange(12)
    before = _view(model.live)
    if model.live is None or kind < 5 or kind > 9:
        if kind > 9 and last:
            obj, manager, force = last[0]
        else:
            obj, manager, force = applied(rng, name), rng.choice("abc"), rng.random() < 0.4
        last[:] = [(obj, manager, force)]
        path = f"{_PATH}/{name}?fieldManager={manager}&force={str(force).lower()}"
        history.append(f"apply {manager} force={force} {obj}")
        real = oracle.call("PATCH", path, obj, APPLY)
        ours = model.apply(obj, manager, force=force)
    elif kind < 8:
        patch, manager = patched(rng), rng.choice(["u", "v", "a"])
        history.append(f"merge {manager} {patch}")
        real = oracle.call("PATCH", f"{_PATH}/{name}?fieldManager={manager}", patch, MERGE)
        ours = model.merge(patch, manager)
    elif kind == 8:
        obj, manager = applied_status(rng, name), rng.choice("ab")
        path = f"{_PATH}/{name}/status?fieldManager={manager}"
        history.append(f"apply status {manager} {obj}")
        real = oracle.call("PATCH", path, obj, APPLY)
        ours = model.apply(obj, manager, force=False, subresource="status")
    else:
        patch, manager = {"status": {"phase": rng.choice(["p", "q", None])}}, "s"
        history.append(f"merge status {manager} {patch}")
        real = oracle.call("PATCH", f"{_PATH}/{name}/status?fieldManager={manager}", patch, MERGE)
        ours = model.merge(patch, manager, "status")
    story = "\n".join(history) + f"\nbefore: {before}"
    if real[0] >= 400:
        assert ours[0] == real[0], f"{story}\nreal: {real}\nours: {ours} {model.live}"
        if real[0] == 409:
            assert sorted(ours[1].split("\n")) == sorted(real[1]["message"].split("\n")), story
        return real[0]
    assert ours[0] == real[0], f"{story}\nreal: {real[0]}\nours: {ours}"
    expected, found = _view(real[1]), _view(model.live)
    for part in range(3):
        if expected[part] != found[part]:
            pytest.fail(f"{story}\nreal: {expected[part]}\nours: {found[part]}", pytrace=False)
    return real[0]
