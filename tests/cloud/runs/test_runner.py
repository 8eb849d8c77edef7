"""`manager task run` as a process: files in, files out, exit codes."""

from __future__ import annotations

import asyncio
import io
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from internal.cloud.runs.report import Report, decode_report
from internal.cloud.runs.wire import BadInput, decode_input, encode_input
from internal.cloud.tasks.redaction import Redaction
from internal.cloud.tasks.registry import UnknownTask, lazily, make_task
from internal.cloud.tasks.runner import Workplace, run_task
from tests.cloud.runs.benches import owner_of, request_of
from tests.cloud.runs.work import Work, logger_to

ROOT = Path(__file__).parents[3]


class Process:
    """One run by hand."""

    def __init__(self, folder: Path) -> None:
        self.result = folder / "result"
        self._input = folder / "input"
        self.environment = {
            "PATH": os.environ["PATH"],
            "TASK_INPUT": str(self._input),
            "TASK_RESULT": str(self.result),
        }

    def give(self, *steps: dict[str, Any]) -> None:
        owner = owner_of("shop", "1")
        self._input.write_bytes(encode_input(request_of(owner, *steps).input))

    def give_bytes(self, given: bytes) -> None:
        self._input.write_bytes(given)

    async def run(self, *steps: dict[str, Any], name: str = "work") -> tuple[int, str]:
        """Exit code and log of a run in this process."""
        if steps:
            self.give(*steps)
        log = io.StringIO()
        code = await run_task(name, self.environment, {"work": Work}, logger_to, log)
        return code, log.getvalue()

    async def manager(self) -> tuple[int | None, str]:
        """The same for the manager's command."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "manager", "task", "run", "play"),
            cwd=ROOT,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        log, _ = await process.communicate()
        return process.returncode, log.decode()

    def report(self) -> Report:
        return decode_report(self.result.read_bytes())


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


async def test_config_maps_come_with_the_input(process: Process) -> None:
    given = request_of(owner_of("shop", "1"), {"read": "web"}).input
    process.give_bytes(encode_input(replace(given, config_maps={"web": {"a.yaml": "kind: X"}})))
    code, _ = await process.run()
    assert (code, process.report().outputs) == (0, {"a.yaml": "kind: X"})


async def test_a_config_map_that_was_not_there_is_named(process: Process) -> None:
    code, _ = await process.run({"read": "web"})
    assert code == 2
    assert "the ConfigMap 'web' was not there when the run began" in process.report().message


async def test_an_unknown_task_is_rejected_with_the_names_there_are(process: Process) -> None:
    process.give_bytes(encode_input(replace(request_of(owner_of("shop", "1")).input, task="play")))
    code, log = await process.manager()
    assert code == 2, log
    assert "there is no task 'play'; there are: " in process.report().message
    assert not process.report().retryable


async def test_without_its_files_it_reports_how_to_run_it_by_hand(process: Process) -> None:
    del process.environment["TASK_RESULT"]
    code, log = await process.manager()
    assert code == 2
    assert "set both" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"", "is not what a manager writes"),
        (b"{}", "missing required field"),
        (b'{"task": 1}', "is not what a manager writes"),
    ],
)
async def test_bad_input_is_rejected(process: Process, given: bytes, message: str) -> None:
    process.give_bytes(given)
    code, _ = await process.run()
    assert code == 2
    assert message in process.report().message


async def test_the_input_of_another_task_is_rejected(process: Process) -> None:
    process.give()
    code, _ = await process.run(name="other")
    assert code == 2
    assert "for the task 'work', and not for 'other'" in process.report().message


async def test_no_secret_is_logged(process: Process, tmp_path: Path) -> None:
    (tmp_path / "secrets" / "cloud").mkdir(parents=True)
    (tmp_path / "secrets" / "cloud" / "token").write_text('line "one"\nline-two')
    (tmp_path / "key").write_text("3q2+796tvu/erb7v3q2+796tvu/erb7v3q2+796tvu8=")
    process.environment |= {
        "TASK_SECRETS": str(tmp_path / "secrets"),
        "TASK_SEAL_KEY": str(tmp_path / "key"),
    }
    code, log = await process.run({"reveal": {"name": "cloud", "key": "token"}})
    assert code == 0, log
    assert "revealed" in log
    assert "one" not in log
    assert "line-two" not in log
    assert "line-two" not in process.result.read_text()


async def test_each_line_of_the_log_names_its_source(process: Process) -> None:
    _, log = await process.run({"progress": "half way"})
    (line,) = (line for line in log.splitlines() if "half way" in line)
    fields = orjson.loads(line)
    assert fields["task"] == "work"
    assert fields["run_id"] == "work-0123456789ab"
    assert fields["inputs_version"].startswith("4-")
    assert fields["instance"] == "shop"


async def test_outputs_that_are_no_text_are_refused(process: Process) -> None:
    code, _ = await process.run({"result": {"outputs": {"count": 3}}})
    assert code == 2
    assert "output 'count' is no text but int" in process.report().message


@pytest.mark.parametrize(
    ("step", "message"),
    [({"crash": "oh"}, "RuntimeError: oh"), ({"give_up": ""}, "the task gave itself up")],
)
async def test_an_unforeseen_error_may_go_away(
    process: Process, step: dict[str, Any], message: str
) -> None:
    code, _ = await process.run(step)
    assert code == 1
    assert (process.report().message, process.report().retryable) == (message, True)


@pytest.mark.parametrize("limit", ["-1", "many", "100"])
def test_a_limit_that_is_none_is_an_error(limit: str) -> None:
    environment = {"TASK_INPUT": "i", "TASK_RESULT": "r", "TASK_RESULT_LIMIT": limit}
    with pytest.raises(BadInput, match="is a number of bytes"):
        Workplace.of(environment)


def test_the_input_is_the_same_after_the_journey() -> None:
    given = request_of(owner_of("shop", "1"), {"a": ["ü", 1.5, None, {"b": True}]}).input
    assert decode_input(encode_input(given)) == given
    assert encode_input(decode_input(encode_input(given))) == encode_input(given)


def test_a_task_is_imported_when_it_is_wanted() -> None:
    registry = {"work": lazily("tests.cloud.runs.work:Work"), "none": lazily("no.such.module:X")}
    assert isinstance(make_task("work", registry), Work)
    with pytest.raises(UnknownTask, match="there are: none, work"):
        make_task("play", registry)


def test_words_of_everyday_are_not_redacted() -> None:
    redaction = Redaction()
    redaction.add("a\nlong-value\n\n")
    assert redaction.text("a long-value, and a longer one") == "a ***, and a longer one"
