"""The one source of time and chance."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from ctrlruntime import clock
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.clock import Sources, replaced
from internal.cosmos.cache.pace import Pace
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.criterion("SIM-D2")


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (clock.monotonic, 5.0),
        (clock.boottime, 6.0),
        (clock.perf, 7.0),
        (clock.wall, 8.0),
        (lambda: clock.utc_now().timestamp(), 8.0),
        (clock.draw, 0.25),
        (lambda: clock.draw_between(2.0, 4.0), 2.5),
        (lambda: clock.random_hex(2), "0707"),
        (clock.new_uid, "07070707-0707-4707-8707-070707070707"),
        (ReflectorOptions().clock, 5.0),
        (ReflectorOptions().random, 0.25),
        (lambda: Pace(interval=100.0).pause(1), 95.0),
    ],
)
def test_what_was_made_before_reads_the_sources_that_are_put_in_place(
    read: Callable[[], object], expected: object
) -> None:
    sources = Sources(
        monotonic=lambda: 5.0,
        boottime=lambda: 6.0,
        perf=lambda: 7.0,
        wall=lambda: 8.0,
        random=lambda: 0.25,
        random_bytes=lambda count: bytes([7]) * count,
    )
    with replaced(sources):
        assert read() == pytest.approx(expected)
    assert read() != expected


@pytest.mark.parametrize("count", [1, 2, 3, 62, 256, 257])
def test_each_option_is_as_likely_as_the_others(count: int) -> None:
    with replaced(Sources(random_bytes=Random(1).randbytes)):
        found = Counter(clock.random_choice(range(count)) for _ in range(count * 400))
    assert len(found) == count
    assert all(300 < times < 500 for times in found.values())


@pytest.mark.parametrize(
    "line",
    [
        "from time import monotonic",
        "import time\n\nmonotonic = time.monotonic",
        "import random",
        "from secrets import token_hex",
        "import uuid\n\nuid = uuid.uuid4()",
        "from datetime import UTC, datetime\n\nnow = datetime.now(UTC)",
        "import threading\n\nthread = threading.Thread()",
    ],
)
@pytest.mark.parametrize("package", ["ctrlruntime/cache", "internal/tenancy", "manager"])
def test_another_source_is_refused(package: str, line: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--select", "TID251", "-q", "-"]
    done = subprocess.run(
        [*command, "--stdin-filename", ROOT / package / "new.py"],
        input=line,
        text=True,
        capture_output=True,
        cwd=ROOT,
    )
    assert "TID251" in done.stdout, done.stdout + done.stderr
