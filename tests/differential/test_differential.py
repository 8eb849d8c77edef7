"""The same random requests to a real API server and to the embedded one: the same answers.

CTRLRUNTIME_DIFFERENTIAL_SEED draws another sequence, CTRLRUNTIME_DIFFERENTIAL_REQUESTS more of
them, CTRLRUNTIME_DIFFERENTIAL_KINDS only some kinds.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence

import pytest
import uvloop
from hypothesis import HealthCheck, Phase, given, seed, settings

from ctrlruntime.client.config import Config
from ctrlruntime.envtest.backends.versions import parse_version
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.dispatch import VERSION
from tests.backends import SharedServer
from tests.differential import builtin, custom
from tests.differential.features import PROMISED
from tests.differential.histogram import Histogram
from tests.differential.replay import Replay
from tests.differential.requests import (
    DRAWS,
    LENGTH,
    MERGE,
    NAMESPACE,
    Script,
    Step,
    script,
)
from tests.differential.servers import Pair, Server
from tests.differential.subject import Subject
from tests.selection import is_sample

SEED = int(os.environ.get("CTRLRUNTIME_DIFFERENTIAL_SEED", "2"))
REQUESTS = int(os.environ.get("CTRLRUNTIME_DIFFERENTIAL_REQUESTS", "0"))
KINDS = set(filter(None, os.environ.get("CTRLRUNTIME_DIFFERENTIAL_KINDS", "").split(",")))
SHOWN = int(os.environ.get("CTRLRUNTIME_DIFFERENTIAL_SHOWN", "3"))
VERBS = {"apply", "create", "update", "merge patch", "json patch", "delete", "get", "list"}
ENOUGH = 2500
"""Requests from which on the shares of verbs, kinds and answers hold for any seed."""
MODELLED = parse_version(VERSION["gitVersion"])
"""The release that the embedded server models."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

pytestmark = [pytest.mark.timeout(1800)]


def draw(subjects: Sequence[Subject], requests: int) -> list[Script]:
    """Return scripts drawn by hypothesis from the seed, enough for so many requests."""
    chosen = [each for each in subjects if not KINDS or each.kind in KINDS]
    found: list[Script] = []

    @seed(SEED)
    @settings(
        max_examples=requests * 3 // (LENGTH * 2),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(DRAWS)
    def collect(drawn: list[bytes]) -> None:
        found.append(script(chosen[len(found) % len(chosen)], drawn))

    collect()
    return found


async def install(pair: Pair, subjects: Sequence[Subject]) -> None:
    """The namespace and the definitions of the custom kinds, on both."""
    for server in (pair.real, pair.embedded):
        body = {"metadata": {"name": NAMESPACE}}
        await server.send(Step("", "POST", "/api/v1/namespaces", body))
        for subject in (each for each in subjects if each.custom):
            definition = custom.definition(subject)
            path = f"{DEFINITIONS}/{definition['metadata']['name']}"
            await server.send(Step("", "DELETE", path))
            await _until(server, Step("", "GET", path), 404)
            await _until(server, Step("", "POST", DEFINITIONS, definition), 201)
            objects = subject.collection(NAMESPACE)
            await _until(server, Step("", "GET", objects), 200)
            # For a moment a real server answers patches as if it had no such path.
            absent = Step("", "PATCH", f"{objects}/absent", {}, MERGE)
            await _until(server, absent, 404)


async def _until(server: Server, step: Step, code: int) -> None:
    """Send it again until the answer has the code."""
    answer = await server.send(step)
    deadline = time.monotonic() + 60
    while answer.code != code or not isinstance(answer.body, dict):
        assert time.monotonic() < deadline, f"{step.described()}: {answer}"
        await asyncio.sleep(0.05)
        answer = await server.send(step)


def requests_of(config: pytest.Config, full: int) -> int:
    """Return how many requests to send: `full` of them, or a tenth in a sample."""
    return REQUESTS or (full // 10 if is_sample(config) else full)


async def compare(pair: Pair, subjects: Sequence[Subject], requests: int) -> Histogram:
    """Fail with the shortest scripts that tell the two apart."""
    histogram = Histogram()
    replay = Replay(pair, histogram, f"o{SEED}")
    drawn = draw(subjects, requests)
    differences = await replay.run(drawn, requests=requests, at_once=8, most=SHOWN)
    print(f"\nseed {SEED}, {histogram}")
    if differences:
        shortest = [await replay.shortest(each) for each in differences[:SHOWN]]
        pytest.fail(f"seed {SEED}:\n" + "\n\n".join(map(str, shortest)), pytrace=False)
    return histogram


def check_shares(
    histogram: Histogram, subjects: Sequence[Subject], requests: int, conflicts: float
) -> None:
    """Whether enough of everything was asked, whatever the seed. `conflicts` is the share of them."""
    assert histogram.total >= requests or KINDS
    if KINDS or requests < ENOUGH:
        return
    applies = histogram.verbs["apply"]
    assert histogram.share(applies) >= 0.60
    assert histogram.share(histogram.conflicts) >= conflicts
    assert histogram.share(histogram.rejections) >= 0.10
    assert sum(count > applies / 10 for count in histogram.managers.values()) >= 3
    assert histogram.kinds.keys() == {each.kind for each in subjects}
    assert min(histogram.kinds.values()) >= requests / (3 * len(subjects))
    strategic = {"strategic patch"} if any(not each.custom for each in subjects) else set()
    assert histogram.verbs.keys() == VERBS | strategic


def run(server: SharedServer, subjects: Sequence[Subject], requests: int) -> Histogram:
    """Send the requests, on a loop of its own."""
    if server.version < MODELLED:
        pytest.skip(
            f"the embedded server models 1.{MODELLED[1]}, this one is 1.{server.version[1]}"
        )

    async def both() -> Histogram:
        async with (
            APIServer(ServerOptions()) as api,
            Server(Config(host=api.url)) as embedded,
            Server(server.config) as upstream,
        ):
            pair = Pair(upstream, embedded)
            await install(pair, subjects)
            return await compare(pair, subjects, requests)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(both())


@pytest.mark.slow
def test_built_in_kinds_agree_with_kube_apiserver(
    real_server: SharedServer, request: pytest.FixtureRequest
) -> None:
    requests = requests_of(request.config, 7500)
    histogram = run(real_server, builtin.ALL, requests)
    check_shares(histogram, builtin.ALL, requests, 0.18)


@pytest.mark.slow
def test_custom_kinds_agree_with_kube_apiserver(
    real_server: SharedServer, request: pytest.FixtureRequest
) -> None:
    requests = requests_of(request.config, 2500)
    histogram = run(real_server, custom.ALL, requests)
    check_shares(histogram, custom.ALL, requests, 0.10)
    if not KINDS and requests >= ENOUGH:
        assert min(histogram.fields[name] for name in PROMISED) >= histogram.total / 50


def test_kinds_are_as_many_and_as_various_as_promised() -> None:
    kinds = [*builtin.ALL, *custom.ALL]
    assert len({each.kind for each in kinds}) == len(kinds) >= 12
    assert len(custom.ALL) >= 3
