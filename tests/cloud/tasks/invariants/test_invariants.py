"""The task that makes invariants true, against web sites on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from apis.cloud import TaskOperation
from internal.cloud.tasks import TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.http import RetryPolicy
from internal.cloud.tasks.invariants import InvariantsTask
from tests.cloud.servers.site import Asked, Say, Site
from tests.cloud.tasks.workbench import Workbench

SECRET = "s3cret-t0ken"


class Application:
    """An instance that has settings, to be looked at and changed with a token."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.settings: dict[str, Any] = {}
        self.writes = 0
        self.lose_writes = 0
        for name in ("smtp", "alerts", "license"):
            site.answers[f"GET /{name}"] = self._show
            site.answers[f"POST /{name}"] = self._change

    def invariant(self, name: str, value: object, **more: object) -> dict[str, Any]:
        secret = {
            "name": "Authorization",
            "prefix": "Bearer ",
            "valueFrom": {"name": "admin", "key": "token"},
        }
        url = f"{self.site.url}/{name}"
        change = {"url": url, "method": "POST", "body": {"value": value}, "secretHeaders": [secret]}
        expect = [{"path": "$.value", "equals": value}]
        check = {"url": url, "secretHeaders": [secret], "expect": expect}
        return {"name": name, "check": check, "ensure": [change], **more}

    def _show(self, asked: Asked) -> Say:
        if asked.headers.get("Authorization") != f"Bearer {SECRET}":
            return Say(status=401)
        return Say(json={"value": self.settings.get(asked.path)})

    def _change(self, asked: Asked) -> Say:
        self.writes += 1
        self.settings[asked.path] = asked.body["value"]
        if self.lose_writes > 0:
            self.lose_writes -= 1
            return Say(hang_up=True)
        return Say()


@pytest.fixture
async def application() -> AsyncIterator[Application]:
    async with Site() as site:
        yield Application(site)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    bench.secrets["admin", "token"] = SECRET
    return bench


async def instantly(_seconds: float) -> None:
    await asyncio.sleep(0)


async def run(
    bench: Workbench, *invariants: dict[str, Any], teardown: bool = False, **spec: object
) -> TaskResult:
    context = bench.context(
        "invariants",
        {"version": "5.3.0", "invariants": list(invariants), **spec},
        kind="InstanceInvariants",
        operation=TaskOperation.TEARDOWN if teardown else TaskOperation.APPLY,
    )
    return await InvariantsTask(sleep=instantly, retries=RetryPolicy(attempts=2)).run(context)


@pytest.mark.criterion("SG-74")
async def test_what_holds_is_left_alone_and_what_does_not_is_mended(
    bench: Workbench, application: Application
) -> None:
    both = application.invariant("smtp", "on"), application.invariant("alerts", "${alerting}")
    result = await run(bench, *both)
    assert result.message == "0 held, 2 mended (smtp, alerts)"
    assert application.settings == {"/smtp": "on", "/alerts": True}
    result = await run(bench, *both)
    assert result.message == "2 held, 0 mended"
    assert application.writes == 2
    application.settings["/smtp"] = "off"
    assert (await run(bench, *both)).message == "1 held, 1 mended (smtp)"
    assert (await run(bench, *both, alerting=False)).message == "1 held, 1 mended (alerts)"
    assert application.settings["/alerts"] is False
    assert bench.said[:2] == ["1 of 2: smtp", "2 of 2: alerts"]


async def test_everything_is_tried_and_failures_are_named(
    bench: Workbench, application: Application
) -> None:
    async with Site() as gone:
        closed = gone.url
    dead = {"name": "dead", "check": {"url": closed}}
    stubborn = application.invariant("license", "valid")
    stubborn["ensure"] = [{"url": f"{application.site.url}/nothing", "statusCodes": [404]}]
    with pytest.raises(TaskError) as caught:
        await run(bench, dead, stubborn, application.invariant("smtp", "on"))
    assert not isinstance(caught.value, TaskRejected)
    text = str(caught.value)
    assert text.startswith("0 held, 1 mended (smtp), 2 failed (dead, license). dead: GET ")
    assert "license: even afterwards, GET" in text
    assert '$.value is null, not "valid"' in text
    assert application.settings == {"/smtp": "on"}


async def test_an_action_that_fails_ends_its_row_and_reports_why(
    bench: Workbench, application: Application
) -> None:
    invariant = application.invariant("smtp", "on")
    invariant["ensure"].insert(0, {"url": f"{application.site.url}/first", "method": "PUT"})
    with pytest.raises(TaskError, match=r"smtp: PUT http\S+/first answered 404, not 200"):
        await run(bench, invariant)
    assert application.writes == 0


async def test_nothing_is_changed_on_an_unanswered_check(
    bench: Workbench, application: Application
) -> None:
    application.site.answers["GET /smtp"] = Say(hang_up=True)
    with pytest.raises(TaskError, match="gave no answer"):
        await run(bench, application.invariant("smtp", "on"))
    assert application.writes == 0


async def test_an_action_whose_reply_is_lost_is_not_repeated_blindly(
    bench: Workbench, application: Application
) -> None:
    application.lose_writes = 1
    result = await run(bench, application.invariant("smtp", "on"))
    assert result.message == "0 held, 1 mended (smtp)"
    assert application.writes == 1


@pytest.mark.parametrize(
    "faulty",
    [
        {"headers": {"X": "${nobody}"}},
        {"expect": [{"path": "$["}]},
        {"headers": {"X": "${outputs.x}"}},
    ],
)
async def test_a_faulty_invariant_is_rejected_the_others_are_enforced(
    bench: Workbench, application: Application, faulty: dict[str, Any]
) -> None:
    bad = {"name": "bad", "check": {"url": application.site.url, **faulty}}
    with pytest.raises(TaskRejected, match=r"1 failed \(bad\)"):
        await run(bench, bad, application.invariant("smtp", "on"))
    assert application.settings == {"/smtp": "on"}
    unknown = {"name": "unknown", "check": {"url": f"{application.site.url}/unknown"}}
    with pytest.raises(TaskError) as caught:
        await run(bench, bad, unknown)
    assert not isinstance(caught.value, TaskRejected)


async def test_a_faulty_action_keeps_its_invariant_from_being_touched(
    bench: Workbench, application: Application
) -> None:
    invariant = application.invariant("smtp", "on")
    invariant["ensure"].append({"url": application.site.url, "headers": {"X": "${domain}"}})
    with pytest.raises(TaskRejected, match="the instance has no domain"):
        await run(bench, invariant)
    assert application.site.asked == []
    await_domain = {"url": application.site.url, "statusCodes": [404]}
    invariant["ensure"][1] = {**await_domain, "headers": {"X": "${domain} ${outputs.ip}"}}
    await run(bench, invariant, domain="acme.example", outputs={"ip": "1.2.3.4"})
    assert application.site.asked[-2].headers["X"] == "acme.example 1.2.3.4"


async def test_a_missing_secret_is_rejected(bench: Workbench, application: Application) -> None:
    bench.secrets.clear()
    with pytest.raises(TaskRejected, match="no Secret admin with token"):
        await run(bench, application.invariant("smtp", "on"))


async def test_teardown_undoes_in_reverse(bench: Workbench, application: Application) -> None:
    site = application.site
    for name in ("smtp", "alerts"):
        site.answers[f"DELETE /{name}"] = Say(status=204)
    undo = {
        name: {
            "onDelete": [{"url": f"{site.url}/{name}", "method": "DELETE", "statusCodes": [204]}]
        }
        for name in ("smtp", "alerts")
    }
    every = [
        application.invariant("smtp", "on", **undo["smtp"]),
        application.invariant("license", "valid"),
        application.invariant("alerts", True, **undo["alerts"]),
    ]
    assert (await run(bench, *every, teardown=True)).message == "2 undone"
    assert site.paths() == ["DELETE /alerts", "DELETE /smtp"]
    site.answers["DELETE /alerts"] = Say(status=500)
    with pytest.raises(TaskError, match=r"1 undone, 1 failed \(alerts\)"):
        await run(bench, *every, teardown=True)
    assert site.paths()[-1] == "DELETE /smtp"
    assert (await run(bench, teardown=True)).message == "nothing to undo"


async def test_secrets_are_never_reported(bench: Workbench, application: Application) -> None:
    application.settings["/smtp"] = f"leaks {SECRET}"
    invariant = application.invariant("smtp", "on")
    invariant["ensure"] = [{"url": f"{application.site.url}/{SECRET}"}]
    with structlog.testing.capture_logs() as logs, pytest.raises(TaskError) as caught:
        await run(bench, invariant)
    assert "leaks ***" in str(caught.value) or "/***" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(logs)
    assert logs


async def test_a_redirect_to_another_host_gets_no_secret(
    bench: Workbench, application: Application
) -> None:
    async with Site() as elsewhere:
        elsewhere.answers["GET /"] = Say(json={"value": "on"})
        application.site.answers["GET /smtp"] = Say(
            status=302, headers={"Location": f"{elsewhere.url}/"}
        )
        assert (await run(bench, application.invariant("smtp", "on"))).message == "1 held, 0 mended"
        assert "Authorization" not in elsewhere.asked[0].headers


async def test_a_spec_of_another_shape_is_rejected(bench: Workbench) -> None:
    with pytest.raises(TaskRejected, match="not as its kind wants it"):
        await run(bench, {"name": "x"})
