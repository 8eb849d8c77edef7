"""What runs of Cloud Run printed is read from Cloud Logging, in order, in pages, and within a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from internal.cloud.runs.cloudrun import CloudAPI, CloudError, CloudRunLogs, LogCursor, project_of
from internal.cloud.runs.cloudrun.job import execution_id
from tests.cloud.runs.benches import CloudRunBench, request_of
from tests.cloud.runs.test_contract import ended
from tests.cloud.servers.cloudrun import CloudServer

pytestmark = pytest.mark.criterion("instance-logs")

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = "terraform-1"
EXECUTION = execution_id("uid-1", RUN)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[CloudServer]:
    made = CloudServer(tmp_path, project="shops-1", location="here", bucket="runs")
    async with made:
        yield made


@pytest.fixture
async def api(server: CloudServer) -> AsyncIterator[CloudAPI]:
    given = server.token

    async def token() -> str:
        return given

    made = CloudAPI(token)
    yield made
    await made.close()


@pytest.fixture
def logs(server: CloudServer, api: CloudAPI) -> CloudRunLogs:
    return CloudRunLogs(api, server.url)


@pytest.fixture
def cursor() -> LogCursor:
    return LogCursor("shops-1", "uid-1", RUN, BEGIN)


async def test_the_last_lines_come_oldest_first_from_all_pages(
    server: CloudServer, logs: CloudRunLogs, cursor: LogCursor
) -> None:
    for number in range(9):
        server.logging.write(EXECUTION, f"line {number}", at=at(number))
        server.logging.write("another-run", "not of this run", at=at(number))
    server.logging.write(EXECUTION, "of an earlier job of this name", at=at(-60))
    server.logging.empty_pages = 2
    assert await logs.last(cursor, 5) == [f"line {number}" for number in range(4, 9)]
    cursor = LogCursor("shops-1", "uid-1", RUN, BEGIN)
    assert await logs.last(cursor, 100) == [f"line {number}" for number in range(9)]
    body = server.logging.bodies[0]
    assert body["resourceNames"] == ["projects/shops-1"]
    assert (body["orderBy"], body["pageSize"]) == ("timestamp desc", 1000)


async def test_further_lines_come_once_also_those_that_arrive_late(
    server: CloudServer, logs: CloudRunLogs, cursor: LogCursor
) -> None:
    assert await logs.last(cursor, 5) == []
    server.logging.write(EXECUTION, "first", at=at(1), insert_id="b")
    server.logging.write(EXECUTION, "same moment", at=at(1), insert_id="c")
    assert await logs.further(cursor) == ["first", "same moment"]
    assert await logs.further(cursor) == []
    server.logging.write(EXECUTION, "late", at=at(0.5))
    server.logging.write(EXECUTION, "late too", at=at(1), insert_id="a")
    server.logging.write(EXECUTION, "next", at=at(50))
    assert await logs.further(cursor) == ["late", "late too", "next"]
    assert await logs.further(cursor) == []
    server.logging.write(EXECUTION, "after that", at=at(51))
    assert await logs.further(cursor) == ["after that"]
    assert server.logging.bodies[-1]["filter"].endswith('timestamp>="2026-03-01T12:00:20Z"')


async def test_texts_structures_and_audit_logs(
    server: CloudServer, logs: CloudRunLogs, cursor: LogCursor
) -> None:
    log = server.logging
    log.write(EXECUTION, "one\ntwo", timestamp="2026-03-01T12:00:01.123456789Z")
    log.write(
        EXECUTION, "", at=at(2), textPayload=None, jsonPayload={"message": "three", "level": 1}
    )
    log.write(EXECUTION, "", at=at(3), textPayload=None, jsonPayload={"b": 1, "a": 2})
    log.write(EXECUTION, "", at=at(4), textPayload=None, protoPayload={"@type": "audit"})
    assert await logs.last(cursor, 9) == ["one", "two", "three", '{"a": 2, "b": 1}']


async def test_one_look_has_a_limit(server: CloudServer, api: CloudAPI, cursor: LogCursor) -> None:
    logs = CloudRunLogs(api, server.url, most_bytes=25)
    for number in range(9):
        server.logging.write(EXECUTION, f"{number:010}", at=at(number))
    assert await logs.last(cursor, 1000) == ["0000000006", "0000000007", "0000000008"]


async def test_a_refusal_names_the_reason(
    server: CloudServer, logs: CloudRunLogs, cursor: LogCursor
) -> None:
    server.logging.denied = True
    with pytest.raises(CloudError, match="Permission denied"):
        await logs.last(cursor, 5)
    server.token = "another"
    with pytest.raises(CloudError, match="401"):
        await logs.last(cursor, 5)


async def test_the_name_of_a_run_cannot_change_the_filter(logs: CloudRunLogs) -> None:
    with pytest.raises(ValueError, match="no name of a run"):
        await logs.last(LogCursor("shops-1", "uid-1", 'x" OR resource.type="gce_instance'), 5)


@pytest.mark.parametrize(
    ("address", "project"),
    [
        ("https://console.cloud.google.com/logs/viewer?project=shops-1&advancedFilter=x", "shops-1"),
        ("https://console.cloud.google.com/logs/viewer?project=example.com:shops-1", "example.com:shops-1"),
        ("https://console.cloud.google.com/logs/viewer?advancedFilter=x", ""),
        ("https://console.cloud.google.com/logs/viewer?project=a/../b", ""),
        ("http://console.cloud.google.com/logs/viewer?project=shops-1", ""),
        ("https://console.cloud.google.com.example.com/?project=shops-1", ""),
        ("https://logs.example.com/1", ""),
        ("https://[", ""),
    ],
)  # fmt: skip
def test_the_project_is_that_of_the_address_of_an_execution(address: str, project: str) -> None:
    assert project_of(address) == project


async def test_a_run_ends_as_ever_while_its_log_cannot_be_read(
    cloud_run_bench: CloudRunBench,
) -> None:
    """And what it reports of its log leads to it."""
    cloud_run_bench.server.logging.denied = True
    provider = cloud_run_bench.provider()
    owner = await cloud_run_bench.owner()
    await provider.start(request_of(owner))
    run = await ended(provider, owner)
    assert run.state.value == "Succeeded"
    assert project_of(run.logs) == "shops"
    assert cloud_run_bench.server.logging.bodies == [], "a provider reads no log"
    await provider.aclose()
