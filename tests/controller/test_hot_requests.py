"""A request that is reconciled again and again is one warning; a manager may have as many watches as the machine allows."""

from __future__ import annotations

import asyncio
import resource

import pytest
from structlog.testing import capture_logs

from ctrlruntime.controller import ControllerOptions, Result
from ctrlruntime.controller.reconcile import FuncReconciler
from ctrlruntime.controller.worker import MANY, WINDOW
from ctrlruntime.hot_keys import QUIET, HotKeys
from ctrlruntime.open_files import raise_open_files
from ctrlruntime.queue import Request
from tests.controller.support import controller as controller_of

HOT = Request("hot", namespace="default")


@pytest.mark.criterion("R-21")
async def test_a_loop_of_reconciles_is_one_warning_that_names_causes() -> None:
    passes = 0

    async def reconcile(request: Request) -> Result | None:
        nonlocal passes
        passes += 1
        if passes < 4 * MANY:
            controller.queue.add(request, reason="ConfigMap default/hot changed")
        else:
            controller.shutdown()
        return None

    with capture_logs() as logs:
        controller = controller_of(FuncReconciler(reconcile), ControllerOptions())
        controller.queue.add(HOT)
        await asyncio.wait_for(controller.start(), 60)
    (warning,) = [each for each in logs if each["log_level"] == "warning"]
    assert warning["reasons"] == ["ConfigMap default/hot changed"]
    assert "same field manager" in warning["event"]


@pytest.mark.criterion("R-21")
def test_many_objects_and_a_steady_pace_are_no_loop_and_it_is_warned_again_after_a_while() -> None:
    found = HotKeys(many=MANY, window=WINDOW)
    assert not any(found.is_hot(Request(str(each)), 0.0) for each in range(2 * MANY))
    steady = [found.is_hot(HOT, WINDOW + each * WINDOW / (MANY - 1)) for each in range(10 * MANY)]
    assert not any(steady)
    hot = [found.is_hot(HOT, 1000.0 + each / MANY) for each in range(int(MANY * (QUIET + 20)))]
    assert sum(hot) == 2
    apart = HotKeys(many=MANY, window=WINDOW, apart=True)
    warned = [key for _ in range(2 * MANY) for key in range(3) if apart.is_hot(key, 0.0)]
    assert warned == [0, 1, 2]


@pytest.mark.criterion("R-22")
def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] // 2, before[1]))
    try:
        assert raise_open_files() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
