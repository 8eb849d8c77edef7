"""The same random requests to a real API server and to the embedded one: the same answers.

Set CTRLRUNTIME_ORACLE_URL and CTRLRUNTIME_ORACLE_TOKEN. Built-in kinds are tried on a server that has
them; custom kinds on one of 1.30 or later, since server-side apply of custom resources was reworked
up to then. CTRLRUNTIME_ORACLE_STEPS (600) and CTRLRUNTIME_ORACLE_SEED (1) choose how many and which;
CTRLRUNTIME_ORACLE_KINDS limits the kinds. The first difference of a sequence ends that sequence; all
differences are shown together.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import aiohttp
import orjson
import pytest

from ctrlruntime.envtest.server import APIServer, ServerOptions
from tests.envtest.conformance import builtin, custom
from tests.envtest.conformance.sequence import steps_of
from tests.envtest.conformance.subject import Subject
from tests.envtest.conformance.twins import MERGE, Server, Step, Twins, View

URL = os.environ.get("CTRLRUNTIME_ORACLE_URL", "")
TOKEN = os.environ.get("CTRLRUNTIME_ORACLE_TOKEN", "")
STEPS = int(os.environ.get("CTRLRUNTIME_ORACLE_STEPS", "600"))
SEED = int(os.environ.get("CTRLRUNTIME_ORACLE_SEED", "1"))
KINDS = set(filter(None, os.environ.get("CTRLRUNTIME_ORACLE_KINDS", "").split(",")))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "differential"
LENGTH = 15

pytestmark = [
    pytest.mark.skipif(not URL, reason="CTRLRUNTIME_ORACLE_URL names no server"),
    pytest.mark.timeout(1800),
]


@dataclass(slots=True)
class Report:
    """What was asked and where the answers differed."""

    requests: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        total = sum(self.requests.values())
        lines = [f"{total} requests, {len(self.differences)} differences"]
        for title, counts in (
            ("by request", self.requests),
            ("by code", self.codes),
            ("by kind", self.kinds),
        ):
            shares = (f"{key} {n} ({n / total:.0%})" for key, n in counts.most_common())
            lines.append(f"{title}: {', '.join(shares)}")
        return "\n".join(lines)


@pytest.fixture(name="twins")
async def _twins() -> AsyncIterator[Twins]:
    context = ssl.create_default_context()
    # The oracle is a process on the loopback interface with a certificate of its own making.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(ssl=context)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        APIServer(ServerOptions()) as server,
    ):
        oracle = Server(URL, session, TOKEN)
        _, version = await oracle.send(Step("", "GET", "/version"))
        strict = int(version["minor"].rstrip("+")) >= 30
        yield Twins(oracle, Server(server.url, session), strict=strict)


async def test_random_sequences_agree(twins: Twins) -> None:
    subjects = [each for each in await _subjects(twins) if not KINDS or each.kind in KINDS]
    assert subjects
    await _prepare(twins, subjects)
    report = Report()
    for number in range(max(1, STEPS // LENGTH)):
        rng = random.Random(SEED * 1_000_003 + number)
        subject = subjects[number % len(subjects)]
        await _sequence(twins, rng, subject, f"o{SEED}-{number}", report)
    await _clean(twins, subjects)
    print(f"\nseed {SEED}: {report}")
    if report.differences:
        pytest.fail("\n\n".join(report.differences[:100]), pytrace=False)
    assert report.codes[409] > 0


async def _subjects(twins: Twins) -> Sequence[Subject]:
    found: list[Subject] = []
    if (await twins.oracle.send(Step("", "GET", "/api/v1")))[0] == 200:
        found += builtin.ALL
    if twins.strict:
        found += custom.ALL
    return found


async def _prepare(twins: Twins, subjects: Sequence[Subject]) -> None:
    for server in (twins.oracle, twins.embedded):
        namespace = {"metadata": {"name": NAMESPACE}}
        await server.send(Step("", "POST", "/api/v1/namespaces", namespace))
        for subject in subjects:
            if subject.builtin:
                continue
            path = f"{DEFINITIONS}/{subject.plural}.{custom.GROUP}"
            await server.send(Step("", "DELETE", path))
            await _until(server, Step("", "GET", path), 404)
            await _until(server, Step("", "POST", DEFINITIONS, custom.definition(subject)), 201)
            objects = f"{subject.root}/namespaces/{NAMESPACE}/{subject.plural}"
            await _until(server, Step("", "GET", objects), 200)
            # For a moment a real server answers as if it had no such path.
            absent = Step("", "PATCH", f"{objects}/absent", {}, MERGE)
            await _until(server, absent, lambda _, found: not isinstance(found, str))


async def _until(server: Server, step: Step, wanted: int | Callable[[int, object], bool]) -> None:
    """Send it again until the answer has the code, or satisfies the condition."""
    async with asyncio.timeout(60):
        for pause in itertools.chain([0.0], itertools.repeat(0.1)):
            await asyncio.sleep(pause)
            code, found = await server.send(step)
            if (code == wanted) if isinstance(wanted, int) else wanted(code, found):
                return


async def _clean(twins: Twins, subjects: Sequence[Subject]) -> None:
    for subject in subjects:
        if not subject.builtin:
            path = f"{DEFINITIONS}/{subject.plural}.{custom.GROUP}"
            await twins.oracle.send(Step("", "DELETE", path))
    await twins.oracle.send(Step("", "DELETE", f"/api/v1/namespaces/{NAMESPACE}"))


async def _sequence(
    twins: Twins, rng: random.Random, subject: Subject, name: str, report: Report
) -> None:
    collection = f"{subject.root}/namespaces/{NAMESPACE}/{subject.plural}"
    told: list[str] = []
    for step in _bounded(steps_of(rng, subject, collection, name, split=twins.strict)):
        told.append(step.told())
        real, ours = await twins.both(step, subject.newer)
        report.requests[step.label] += 1
        report.codes[real.code] += 1
        report.kinds[subject.kind] += 1
        if not twins.agree(step, real, ours):
            report.differences.append(_difference(told, real, ours))
            break
    path = f"{collection}/{name}"
    for step in (
        Step("", "PATCH", path, {"metadata": {"finalizers": None}}, MERGE),
        Step("", "DELETE", path),
    ):
        await twins.both(step, subject.newer)


def _bounded(steps: Iterator[Step]) -> Iterator[Step]:
    for _, step in zip(range(LENGTH), steps, strict=False):
        yield step


def _difference(told: list[str], real: View, ours: View) -> str:
    lines = [
        *told,
        f"  real: {real.code} wrote={real.wrote}",
        f"  ours: {ours.code} wrote={ours.wrote}",
    ]
    if real.code != ours.code or not isinstance(real.content, dict):
        return "\n".join([*lines, f"  real: {real.content}", f"  ours: {ours.content}"])
    for key in sorted(real.content.keys() | ours.content.keys()):
        one, other = real.content.get(key), ours.content.get(key)
        if one != other:
            lines += [f"  real {key}: {_shown(one)}", f"  ours {key}: {_shown(other)}"]
    return "\n".join(lines)


def _shown(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()
