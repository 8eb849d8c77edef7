"""Doors of what objects name and the manager itself sends requests to: health checks of rollouts."""

from __future__ import annotations

from functools import partial
from typing import Final

from ctrlruntime.client.answer_limits import MIB
from ctrlruntime.rollout.health_checker import LARGEST_ANSWER
from tests.hostile.measure import Door
from tests.hostile.outbound_doors import health_check
from tests.hostile.plane_answers import SHAPES, Body, serving

GOOD: Final = b'{"healthy":true,"status":"success","data":{"resultType":"vector","result":[]}}'
GOOD_TEXT: Final = "the hook answers that it is healthy"
_OF_ONE_SIZE: Final = (
    "no m",
    "no u",
    "null",
    "a list",
    "other",
    "a length and",
    "two",
    "another",
    "100,000",
)
HEALTH_SHAPES: Final[dict[str, tuple[str, Body]]] = {
    shape: answer for shape, answer in SHAPES.items() if not shape.startswith(_OF_ONE_SIZE)
}
"""Those that are endless, lie, or nest."""


async def checked(kind: str, shape: str) -> None:
    """Evaluate a check whose server answers so: it has no result, and a short reason."""
    async with serving(*HEALTH_SHAPES[shape]) as server:
        text = await health_check(kind, 10)(server.url)
    assert 0 < len(text) < 300
    assert text not in (GOOD_TEXT, "the query finds nothing")


async def healthy_check() -> None:
    """Evaluate a check whose server is well."""
    async with serving("", lambda: [GOOD]) as server:
        assert await health_check("hook")(server.url) == GOOD_TEXT


HEALTH = Door(
    "answers to health checks",
    {shape: partial(checked, "hook", shape) for shape in HEALTH_SHAPES}
    | {
        f"{shape} (Prometheus)": partial(checked, "prometheus", shape)
        for shape in ("a gzip bomb", "depth 1,000", "no JSON")
    },
    healthy_check,
    limits=f"{LARGEST_ANSWER // MIB} MiB an answer, also inflated; the time of the check; no redirects",
)
