"""What evaluates health checks of rollouts, wired to the runtime."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ctrlruntime.clock import utc_now
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from ctrlruntime.rollout.health import HealthEvaluator, NoHealthEvaluator
from manager.controllers.closing import Closing
from manager.controllers.health_check_options import HealthCheckOptions

NOT_ALLOWED = "the manager allows no address: start it with --health-check-url"


def add_health_checks(
    manager: Manager,
    options: HealthCheckOptions,
    notify: Callable[[Request], None],
    clock: Callable[[], datetime] = utc_now,
) -> HealthEvaluator:
    """Return what evaluates the checks of one system's rollouts; `notify` receives those with a new result.

    Its HTTP client is imported only where an address is allowed.
    """
    if not options.urls:
        return NoHealthEvaluator(NOT_ALLOWED)
    from ctrlruntime.rollout.health_checker import HealthChecker

    checker = HealthChecker(
        options.urls,
        notify,
        clock,
        options.token_file,
        remedy="start the manager with --health-check-url",
    )
    manager.add(Closing(checker.aclose))
    return checker
