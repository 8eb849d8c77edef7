"""The audit of rights: what counts as used, what is refused, and when a run is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pytest

from ctrlruntime.envtest.proxy.log import RequestLog
from ctrlruntime.envtest.proxy.requests import RequestInfo
from manager.manifests.folders import SYSTEMS
from tests.audit.report import Share, judge, shares
from tests.audit.request_recorder import Asked, Lacking, RequestRecorder, read
from tests.audit.rights import Right, granted
from tests.audit.suites import COMMON, NOT_REQUESTED, declared, of_the_manager, shipped

ROOT = Path(__file__).parents[2]
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def ledger(tmp_path: Path) -> RequestRecorder:
    """One of the test's own, which the run does not read."""
    return RequestRecorder(tmp_path / "asked.jsonl")


def request(
    verb: str, resource: str, namespace: str = "", *, user: str = "manager", acting_as: str = ""
) -> RequestInfo:
    return RequestInfo(user, verb, resource, namespace, "", acting_as=acting_as)


class Details(TypedDict, total=False):
    count: int
    group: str
    subresource: str
    expected: bool
    acting_as: str
    streams_list: bool


def asked(
    verb: str,
    resource: str,
    code: int = 200,
    *,
    at: str = "",
    test: str = "test",
    suite: str = "s",
    server: str = "x",
    **more: Unpack[Details],
) -> Asked:
    return Asked(suite, server, test, "manager", verb, resource, at, code, **more)


# -- what is taken down --------------------------------------------------------------------------


def test_requests_are_taken_down_test_by_test(ledger: RequestRecorder) -> None:
    log = RequestLog()
    with ledger.watch(
        log,
        suite="s",
        server="x",
        users=["manager"],
        expected=["pods"],
        elsewhere=lambda namespace: namespace == "going",
    ) as audited:
        ledger.turn("first")
        for _ in range(3):
            log.record(request("patch", "deployments.apps/status", "ns"), 200)
        log.record(request("list", "pods"), 403)
        log.record(request("list", "pods", user="admin"), 403)
        ledger.turn("second")
        log.record(request("list", "nodes"), 403)
        log.record(request("list", "nodes"), 403, "Fail")  # the proxy's own: no server said so
        log.record(request("get", "/apis/apps/v1"), 200)
        with audited.excusing():
            log.record(request("list", "things"), 403)
        log.record(request("create", "pods.x", "going"), 403)
    log.record(request("list", "secrets"), 403)  # nobody watches any more
    ledger.lacks("s", "x", ["cronjobs.batch"])
    ledger.flush()
    ledger.flush()
    assert list(read(ledger.place)) == [
        asked("patch", "deployments", test="first", count=3, at="ns", group="apps", subresource="status"),
        asked("list", "pods", 403, test="first", expected=True),
        asked("list", "nodes", 403, test="second"),
        asked("get", "/apis/apps/v1", test="second"),
        asked("list", "things", 403, test="second", expected=True),
        asked("create", "pods", 403, at="going", test="second", group="x", expected=True),
        Lacking("s", "x", "cronjobs.batch"),
    ]  # fmt: skip
    assert audited.refused == ["list nodes"]


# -- what is granted -----------------------------------------------------------------------------


def role(kind: str, name: str, verbs: list[str], **metadata: str) -> dict[str, Any]:
    rule = {"apiGroups": ["", "apps"], "resources": ["things", "things/status"], "verbs": verbs}
    return {"kind": kind, "metadata": {"name": name, **metadata}, "rules": [rule]}


def binding(kind: str, name: str, **metadata: str) -> dict[str, Any]:
    reference = {"kind": kind, "name": name}
    return {"kind": f"{kind}Binding", "metadata": {"name": "b", **metadata}, "roleRef": reference}


def test_only_bound_roles_grant_and_roles_where_they_are_bound() -> None:
    rights = granted(
        [
            role("ClusterRole", "bound", ["get"]),
            role("ClusterRole", "for-people", ["delete"]),
            {"kind": "ClusterRole", "metadata": {"name": "aggregated"}, "rules": []},
            binding("ClusterRole", "bound"),
            binding("ClusterRole", "aggregated"),
            role("Role", "bound", ["watch"], namespace="ns"),
            binding("Role", "bound", namespace="ns"),
        ]
    )
    things = ("things", "things/status", "things.apps", "things.apps/status")
    assert rights == {Right("get", each) for each in things} | {
        Right("watch", each, "ns") for each in things
    }


# -- the verdict ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "unused"),
    [
        ([], ["create things", "patch things"]),
        ([asked("apply", "things", 200)], ["create things"]),
        ([asked("apply", "things", 201)], []),
        ([asked("apply", "things", 409)], ["create things"]),
        ([asked("patch", "things", 403), asked("create", "things", 403)], ["create things", "patch things"]),
        ([asked("patch", "things", at="somewhere"), asked("create", "things", at="ns")], []),
        ([asked("apply", "things", 201, acting_as="shop")], ["create things", "patch things"]),
        ([asked("apply", "things", 201, suite="other")], ["create things", "patch things"]),
        ([asked("list", "others"), Lacking("s", "x", "things")], []),
        ([Lacking("other", "x", "things")], ["create things", "patch things"]),
    ],
)  # fmt: skip
def test_a_right_is_used_by_requests_that_take_it(lines: list[Any], unused: list[str]) -> None:
    share = Share("s", frozenset({Right("create", "things"), Right("patch", "things")}))
    verdict = judge(lines, [share])
    assert [str(right) for _, right in verdict.unused] == unused
    assert verdict.acceptable is (not unused and not verdict.forbidden)


def test_a_watch_that_begins_with_the_list_takes_both_rights() -> None:
    share = Share("s", frozenset({Right("list", "things"), Right("watch", "things")}))
    (unused,) = judge([asked("watch", "things")], [share]).unused
    assert str(unused[1]) == "list things"
    assert judge([asked("watch", "things", streams_list=True)], [share]).acceptable
    refused = judge([asked("watch", "things", 403, streams_list=True, expected=True)], [share])
    assert [str(right) for _, right in refused.unused] == ["list things", "watch things"]


def test_a_right_in_one_namespace_is_used_there() -> None:
    share = Share("s", frozenset({Right("get", "leases", "system")}))
    assert not judge([asked("get", "leases", at="elsewhere")], [share]).acceptable
    assert judge([asked("get", "leases", at="system")], [share]).acceptable


def test_every_server_that_a_suite_ran_on_is_asked_for_everything() -> None:
    share = Share("s", frozenset({Right("get", "things")}))
    verdict = judge([asked("get", "things"), asked("list", "things", server="y")], [share])
    assert [(str(scene), str(right)) for scene, right in verdict.unused] == [
        ("s on y", "get things")
    ]


def test_what_no_request_takes_is_not_missed() -> None:
    right = Right("update", "things/finalizers")
    assert judge([], [Share("s", frozenset({right}))], [right]).acceptable


def test_refusals_count_in_every_run_unless_they_were_expected() -> None:
    assert judge([asked("get", "things", 403, expected=True)], []).acceptable
    verdict = judge([asked("get", "things", 403, at="ns", acting_as="shop")], [])
    assert verdict.forbidden == [("test", "get things in ns for shop")]


def test_each_suite_has_its_share_and_one_has_the_rest() -> None:
    mine, both, rest = (Right("get", name) for name in ("mine", "both", "rest"))
    parts = shares([mine, both, rest], {"one": [both], "two": [mine, both]}, ["one"])
    assert parts == [
        Share("one", frozenset({both, rest}), common=True),
        Share("two", frozenset({mine, both})),
    ]


# -- the manager's own ---------------------------------------------------------------------------


def test_suites_are_those_of_systems() -> None:
    audit = of_the_manager()
    assert set(COMMON) <= set(audit.folders) <= set(SYSTEMS)
    assert audit.unaudited == set(SYSTEMS) - set(audit.folders)
    assert [folder for folder in audit.folders.values() if not folder.is_dir()] == []


def test_nothing_is_exempt_that_is_not_granted_and_every_grant_has_an_owner() -> None:
    rights = shipped()
    assert rights >= NOT_REQUESTED
    assert set().union(*(share.rights for share in of_the_manager().shares())) == rights
    for system in SYSTEMS:
        assert declared(system) <= rights, "run `make generate manifests`"
    assert not [right for right in rights if "*" in (right.verb, right.resource)]


# -- runs ----------------------------------------------------------------------------------------

CONFTEST = """
import pytest
from pathlib import Path
from tests.audit.plugin import AUDIT
from tests.audit.rights import Right
from tests.audit.report import Audit, Share

pytest_plugins = ["tests.audit.plugin"]


def pytest_configure(config):
    config.addinivalue_line("markers", "matrix")
    rights = frozenset({Right("get", "things"), Right("list", "things")})
    config.stash[AUDIT] = Audit({"suite": Path(__file__).parent}, lambda: [Share("suite", rights)])
"""

TESTS = """
import pytest
from ctrlruntime.envtest.proxy.log import RequestLog
from ctrlruntime.envtest.proxy.requests import RequestInfo

@pytest.mark.parametrize(("verb", "code"), [("get", 200), ("list", 200)])
def test_it(ledger, verb, code):
    log = RequestLog()
    with ledger.watch(log, suite="suite", server="x", users=["manager"], expected=["others"]):
        log.record(RequestInfo("manager", verb, "things", "", ""), code)
        log.record(RequestInfo("manager", verb, "others", "", ""), 403)
"""


class TestRuns:
    """Runs of pytest over a small suite that uses two rights, one in each test."""

    @pytest.fixture
    def suite(self, tmp_path: Path) -> Path:
        (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = suite\n")
        (tmp_path / "suite").mkdir()
        (tmp_path / "suite" / "conftest.py").write_text(CONFTEST)
        (tmp_path / "suite" / "test_it.py").write_text(TESTS)
        return tmp_path

    def run(self, suite: Path, *arguments: str) -> tuple[int, str]:
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={suite / 'temp'}"]
        done = subprocess.run(
            [sys.executable, *command, *arguments],
            cwd=suite,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def changed(self, suite: Path, old: str, new: str) -> None:
        tests = suite / "suite" / "test_it.py"
        assert old in tests.read_text()
        tests.write_text(tests.read_text().replace(old, new))

    def test_what_all_workers_used_is_put_together(self, suite: Path, tmp_path: Path) -> None:
        place = tmp_path / "rights.jsonl"
        code, text = self.run(suite, "suite", f"--rights={place}", "-n", "2")
        assert code == 0, text
        assert "suite as a whole: 2 rights used, 0 unused, 0 refusals" in text
        used = {(line.verb, line.test) for line in read(place) if isinstance(line, Asked)}
        assert used == {
            (verb, f"suite/test_it.py::test_it[{verb}-200]") for verb in ("get", "list")
        }

    def test_the_folder_may_be_removed_when_the_session_finishes(self, suite: Path) -> None:
        """Another run on the machine removes old folders of pytest as soon as their lock is given up."""
        remove = "    shutil.rmtree(session.config._tmp_path_factory.getbasetemp())"
        finish = f"import shutil\n\ndef pytest_sessionfinish(session):\n{remove}\n"
        (suite / "suite" / "conftest.py").write_text(CONFTEST + finish)
        code, text = self.run(suite)
        assert code == 0, text

    def test_a_whole_run_fails_for_a_right_that_was_not_used_and_names_it(
        self, suite: Path
    ) -> None:
        self.changed(suite, '("list", 200)', '("watch", 200)')
        code, text = self.run(suite)
        assert code == 1, text
        assert "granted and never used by suite on x: list things" in text
        assert "get things" not in text

    @pytest.mark.parametrize(
        ("failing", "arguments", "code", "reason"),
        [
            ("    assert verb != 'get'\n", (), 1, "tests failed"),
            ("", ("-p", "tests.samples.plugin", "--tests=ci"), 0, "the run left out tests: --tests ci"),
        ],
        ids=["red", "part"],
    )  # fmt: skip
    def test_a_right_that_is_not_used_is_reported_and_not_decided(
        self, suite: Path, failing: str, arguments: tuple[str, ...], code: int, reason: str
    ) -> None:
        self.changed(suite, '("list", 200)', '("watch", 200)')
        tests = suite / "suite" / "test_it.py"
        tests.write_text(tests.read_text() + failing)
        found, text = self.run(suite, *arguments)
        assert found == code, text
        assert f"1 rights used, 1 unused ({reason}), 0 refusals" in text
        assert ("granted and never used by suite on x: list things" in text) == bool(failing)

    def test_a_part_is_not_asked_for_all_rights(self, suite: Path) -> None:
        code, text = self.run(suite, "-k", "get")
        assert code == 0, text
        assert "rights of the manager" not in text

    @pytest.mark.parametrize(
        ("option", "line"),
        [("--requirements", "WQ-01"), ("--scenarios", "SG-20"), ("--hazards", "H-A1")],
    )
    def test_a_run_of_one_catalogue_is_not_asked_for_all_rights(
        self, suite: Path, option: str, line: str
    ) -> None:
        self.changed(suite, '("list", 200)', '("watch", 200)')
        self.changed(suite, "def test_it", f'@pytest.mark.criterion("{line}")\ndef test_it')
        plugin = ("-p", "tests.catalogue.plugin", "-W", "ignore")
        code, text = self.run(suite, *plugin, "suite", option)
        assert "granted and never used" not in text
        assert "2 passed" in text
        assert code == 0, text

    def test_a_refusal_fails_any_run_and_names_the_test(self, suite: Path) -> None:
        self.changed(suite, '("list", 200)', '("list", 403)')
        code, text = self.run(suite, "suite/test_it.py")
        assert code == 1, text
        assert "forbidden: list things (suite/test_it.py::test_it[list-403])" in text
