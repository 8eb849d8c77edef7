"""The Terraform task by HCP Terraform, against its contract server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from apis.cloud import Instance, TaskOperation
from internal.cloud.keys import instance_key
from internal.cloud.tasks import TaskError, TaskRejected
from internal.cloud.tasks.task import INTERRUPTIBLE
from internal.cloud.terraform_types import TerraformTypes, parse_types
from tests.cloud.servers.hcp import Run, Workspace
from tests.cloud.servers.hcp.fake_service import Version
from tests.cloud.servers.hcp.server import TOKEN
from tests.cloud.tasks.terraform.hcp_bench import HCPBench, spec_of


def workspace(bench: HCPBench, name: str = "acme") -> Workspace:
    found = bench.server.fake_state.named(name)
    assert found is not None
    return found


def runs(bench: HCPBench) -> list[Run]:
    return list(bench.server.fake_state.runs.values())


async def test_from_nothing_to_outputs(bench: HCPBench) -> None:
    bench.server.fake_state.values = {"gke_clusters": ["blue"], "kubeconfig": "apiVersion: v1\n"}
    result = await bench.apply()
    [run] = runs(bench)
    assert result.message == f"run {run.identity}: 3 added, 0 changed, 0 destroyed"
    assert result.outputs == {
        "gke_clusters": '["blue"]',
        "project_id": "project_id of acme",
        "terraform_workspace": "acme/acme",
    }
    assert result.secret_outputs == {"kubeconfig": "apiVersion: v1\n"}
    assert (run.status, run.applies, run.confirmed) == ("applied", 1, 1)
    assert run.message == (
        f"InstanceTerraform prod/acme: Apply of 1-{'0' * 40}, attempt 1 (terraform-cafe00000001)"
    )
    module = run.version.document()["module"]["instance"]
    assert module["blue_machine_type"] == "n2-standard-8"
    assert not run.version.auto_queue
    said = bench.said()
    assert f"run {run.identity} is planned: 3 to add, 0 to change, 0 to destroy" in said
    assert f"run {run.identity} applies: 3 to add" in said


async def test_the_same_again_changes_nothing_and_a_change_changes(bench: HCPBench) -> None:
    await bench.apply()
    result = await bench.apply(attempt=2)
    assert "nothing to change" in result.message
    assert result.outputs
    result = await bench.apply(spec_of(bench.server.url, machine="n2-standard-16"), attempt=3)
    assert "0 added, 3 changed, 0 destroyed" in result.message
    assert len(bench.server.fake_state.workspaces) == 1
    assert [run.applies for run in runs(bench)] == [1, 0, 1]


async def test_a_run_of_the_same_id_is_adopted_whatever_its_state(bench: HCPBench) -> None:
    first = await bench.apply()
    again = await bench.apply()
    assert again == first
    assert len(runs(bench)) == 1
    runs(bench)[0].status = "discarded"
    with pytest.raises(TaskError, match="was discarded by a person"):
        await bench.apply()
    assert len(runs(bench)) == 1


TYPES = """
large:
  module: {source: app.terraform.io/acme/large/google, outputs: [project_id]}
  organization: acme
  address: ADDRESS
  projectId: prj-1
  tokenFrom: {name: hcp, key: token}
  workspace: ${namespace}-${instance}
  terraformVersion: 1.9.8
"""


async def test_an_instance_of_a_type_runs_where_and_as_its_type_defines(bench: HCPBench) -> None:
    types = TerraformTypes(parse_types(TYPES.replace("ADDRESS", bench.server.url)))
    terraform = {"terraform": {"type": "large"}}
    spec = {"version": "5.1.0", "infrastructure": terraform}
    found = types.settings_of(
        Instance.from_manifest({"metadata": {"name": "acme", "namespace": "prod"}, "spec": spec})
    )
    assert found is not None
    result = await bench.apply({"infrastructure": {"terraform": found.to_wire()}})
    assert result.outputs == {
        "project_id": "project_id of prod-acme",
        "terraform_workspace": "acme/prod-acme",
    }
    made = workspace(bench, "prod-acme")
    assert (made.project, made.attributes["terraform-version"]) == ("prj-1", "1.9.8")
    [run] = runs(bench)
    assert (
        run.version.document()["module"]["instance"]["source"]
        == "app.terraform.io/acme/large/google"
    )


async def test_the_workspace_is_made_and_kept_as_the_spec_defines(bench: HCPBench) -> None:
    url = bench.server.url
    await bench.apply(spec_of(url, terraformVersion="1.9.8", projectId="prj-1", workspace="infra"))
    found = workspace(bench, "infra")
    assert found.project == "prj-1"
    assert found.attributes["terraform-version"] == "1.9.8"
    assert found.attributes["execution-mode"] == "remote"
    assert found.attributes["auto-apply"] is False

    found.attributes["execution-mode"] = "agent"
    settings = {"terraformVersion": "1.10.0", "projectId": "prj-2", "workspace": "infra"}
    await bench.apply(spec_of(url, **settings), attempt=2)
    assert found.project == "prj-2"
    assert found.attributes["terraform-version"] == "1.10.0"
    assert found.attributes["execution-mode"] == "agent"
    changes = [each for each in bench.server.requests if each.startswith("PATCH")]
    await bench.apply(spec_of(url, **settings), attempt=3)
    assert [each for each in bench.server.requests if each.startswith("PATCH")] == changes


async def test_a_workspace_of_another_instance_is_left_alone(bench: HCPBench) -> None:
    await bench.apply()
    workspace(bench).attributes["description"] = (
        "Infrastructure of Instance prod/other, managed by its control plane"
    )
    with pytest.raises(TaskRejected, match="belongs to Instance prod/other"):
        await bench.apply(attempt=2)
    assert "belongs to Instance prod/other" in (await bench.teardown()).message
    assert len(runs(bench)) == 1
    assert workspace(bench).resources == 3


def described(text: str) -> dict[str, str]:
    return {"description": text}


NOT_OURS = [
    ("", "was not made for this Instance"),
    ("made by hand", "was not made for this Instance"),
    ("Infrastructure of Instance prod/acme, managed by its control plane", "an earlier Instance"),
    (
        "Infrastructure of Instance prod/acme, managed by its control plane (uid 77777777)",
        "an earlier Instance prod/acme",
    ),
    (
        "Infrastructure of Instance prod/other, managed by its control plane (uid 5a1b9d3e)",
        "belongs to Instance prod/other",
    ),
]


@pytest.mark.criterion("H-B4")
class TestTheMark:
    @pytest.mark.parametrize(("description", "says"), NOT_OURS)
    async def test_h_b4_a_workspace_without_the_mark_is_never_touched(
        self, bench: HCPBench, description: str, says: str
    ) -> None:
        first = await bench.apply()
        workspace(bench).attributes["description"] = description
        before = list(bench.server.requests)
        with pytest.raises(TaskRejected, match=says) as caught:
            await bench.apply(attempt=2)
        with pytest.raises(TaskRejected, match=says):
            await bench.teardown(outputs=first.outputs)
        sent = [each for each in bench.server.requests[len(before) :] if not each.startswith("GET")]
        assert sent == []
        assert workspace(bench).resources == 3
        if "other" not in description:
            assert (
                'set its description to "Instance prod/acme, managed by its control plane'
                ' (uid 5a1b9d3e)"'
            ) in str(caught.value)

    async def test_h_b4_a_workspace_that_is_handed_over_is_used(self, bench: HCPBench) -> None:
        await bench.apply()
        with pytest.raises(TaskRejected) as caught:
            await bench.apply(attempt=2, instance_uid="another")
        mark = str(caught.value).split('"')[1]
        workspace(bench).attributes["description"] = mark
        assert "nothing to change" in (await bench.apply(attempt=2, instance_uid="another")).message

    async def test_h_b4_without_a_uid_nothing_is_touched(self, bench: HCPBench) -> None:
        await bench.apply()
        with pytest.raises(TaskRejected, match="UID of Instance prod/acme is not known"):
            await bench.apply(attempt=2, instance_uid="")

    async def test_h_b4_an_unmarked_workspace_is_not_built_beside(self, bench: HCPBench) -> None:
        """The last success was there: another name is no way around the mark."""
        first = await bench.apply()
        workspace(bench).attributes["description"] = ""
        with pytest.raises(TaskRejected, match="infrastructure is in workspace acme"):
            await bench.apply(
                spec_of(bench.server.url, workspace="infra"), attempt=2, outputs=first.outputs
            )
        assert len(bench.server.fake_state.workspaces) == 1

    async def test_h_b4_a_workspace_that_took_the_name_is_not_deleted(
        self, bench: HCPBench
    ) -> None:
        """Somebody makes one of the same name while ours is deleted."""
        await bench.apply()
        fake_state, ours = bench.server.fake_state, workspace(bench)

        def made(deleted: str) -> None:
            if deleted == ours.name and fake_state.named(ours.name) is None:
                fake_state.workspaces["ws-theirs"] = replace(
                    ours, identity="ws-theirs", attributes=described("by hand"), current=None
                )

        bench.server.after_delete = made
        result = await bench.teardown(attempt=2)
        assert "workspace acme is deleted" in result.message
        assert list(fake_state.workspaces) == ["ws-theirs"]


@pytest.mark.criterion("H-B4")
async def test_h_b4_a_plan_that_a_person_discards_is_not_tried_again(bench: HCPBench) -> None:
    def discard(doing: str) -> None:
        if "is planned" in doing:
            runs(bench)[0].status = "discarded"

    with pytest.raises(TaskRejected) as caught:
        await bench.task().run(replace(bench.context(), progress=discard))
    assert "was discarded by a person" in str(caught.value)
    assert "until the spec changes or a retry is asked for" in str(caught.value)
    assert [(run.status, run.confirmed) for run in runs(bench)] == [("discarded", 0)]


PLAN_LOG = (
    b'{"@level":"info","@message":"...","type":"planned_change","change":{"resource":'
    b'{"addr":"module.instance.google_container_cluster.blue"},"action":"replace"}}\n'
    b'{"@level":"info","@message":"...","type":"planned_change","change":{"resource":'
    b'{"addr":"module.instance.google_sql_database_instance.main[\\"a\\"]"},"action":"delete"}}\n'
    b'{"@level":"info","@message":"...","type":"planned_change","change":{"resource":'
    b'{"addr":"module.instance.google_dns_record_set.a"},"action":"update"}}\n'
)
TEXT_LOG = b"""
  \x1b[1m# module.instance.google_container_cluster.blue\x1b[0m must be \x1b[31mreplaced\x1b[0m
-/+ resource "google_container_cluster" "blue" {
  # module.instance.google_sql_database_instance.main["a"] will be destroyed
  # (because google_sql_database_instance.main is not in configuration)
  # module.instance.google_dns_record_set.a will be updated in-place
"""


@pytest.mark.criterion("H-B3")
class TestProtection:
    def replace_two(self, bench: HCPBench, log: bytes) -> None:
        fake_state = bench.server.fake_state
        fake_state.replaces = 2
        fake_state.plan_log = log

    @pytest.mark.parametrize("log", [PLAN_LOG, TEXT_LOG], ids=["json", "text"])
    async def test_h_b3_a_plan_that_destroys_is_discarded_with_the_addresses(
        self, bench: HCPBench, log: bytes
    ) -> None:
        await bench.apply()
        self.replace_two(bench, log)
        with pytest.raises(TaskRejected) as caught:
            await bench.apply(spec_of(bench.server.url, machine="n2-standard-16"), attempt=2)
        run = runs(bench)[-1]
        said = str(caught.value)
        assert (
            "2 resources: replace module.instance.google_container_cluster.blue,"
            ' destroy module.instance.google_sql_database_instance.main["a"].'
        ) in said
        assert run.identity in said
        assert "set spec.debug.enableDeletionProtection of the Instance to false" in said
        assert (run.status, run.confirmed, run.applies) == ("discarded", 0, 0)
        assert len(bench.server.fake_state.applied) == 1

    async def test_h_b3_numbers_are_enough_where_the_log_has_none(self, bench: HCPBench) -> None:
        await bench.apply()
        self.replace_two(bench, b"")
        with pytest.raises(TaskRejected, match=r"destroys or replaces 2 resources\. Nothing was"):
            await bench.apply(spec_of(bench.server.url, machine="n2-standard-16"), attempt=2)

    async def test_h_b3_a_teardown_of_a_protected_instance_is_refused(
        self, bench: HCPBench
    ) -> None:
        await bench.apply()
        with pytest.raises(TaskRejected, match="deletion protection is on"):
            await bench.teardown(protected=True)
        assert len(runs(bench)) == 1


TAINTED_LOG = (
    b'{"@level":"info","@message":"...","type":"planned_change","change":{"resource":'
    b'{"addr":"module.instance.google_container_cluster.blue"},"action":"replace","reason":"tainted"}}\n'
)


@pytest.mark.criterion("G-C3")
class TestInterruptedApplies:
    async def test_g_c3_a_plan_that_replaces_what_is_tainted_waits_for_an_approval(
        self, bench: HCPBench
    ) -> None:
        await bench.apply()
        bench.server.fake_state.replaces = 1
        bench.server.fake_state.plan_log = TAINTED_LOG
        spec = spec_of(bench.server.url, machine="n2-standard-16")
        result = await bench.apply(spec, attempt=2, protected=True)
        assert "not applied" in result.message
        assert (runs(bench)[-1].status, runs(bench)[-1].confirmed) == ("planned", 0)

    async def test_g_c3_more_than_the_log_calls_tainted_is_refused(self, bench: HCPBench) -> None:
        await bench.apply()
        bench.server.fake_state.replaces = 2
        bench.server.fake_state.plan_log = TAINTED_LOG
        spec = spec_of(bench.server.url, machine="n2-standard-16")
        with pytest.raises(TaskRejected, match="deletion protection is on"):
            await bench.apply(spec, attempt=2, protected=True)
        assert runs(bench)[-1].status == "discarded"

    async def test_g_c3_newer_inputs_may_interrupt_it_until_it_is_confirmed(
        self, bench: HCPBench
    ) -> None:
        seen: list[tuple[str, list[int]]] = []

        def keep(name: str, value: str) -> None:
            assert name == INTERRUPTIBLE
            seen.append((value, [run.confirmed for run in runs(bench)]))

        await bench.task().run(replace(bench.context(), keep=keep))
        confirmed = seen.index(("", [0]))
        assert {value for value, _ in seen[:confirmed]} == {"true"}
        assert {value for value, _ in seen[confirmed:]} == {""}


@pytest.mark.criterion("H-B10")
async def test_h_b10_variables_of_a_local_binary_are_refused(bench: HCPBench) -> None:
    spec = spec_of(bench.server.url)
    spec["infrastructure"]["environmentFrom"] = [{"secretRef": {"name": "cloud"}}]
    with pytest.raises(TaskRejected, match="in the workspace"):
        await bench.apply(spec)


async def test_workspaces_that_cannot_be_used_are_said_to_be(bench: HCPBench) -> None:
    await bench.apply()
    workspace(bench).attributes["execution-mode"] = "local"
    with pytest.raises(TaskRejected, match="set its execution mode"):
        await bench.apply(attempt=2)
    workspace(bench).attributes |= {"execution-mode": "remote", "vcs-repo": {"identifier": "a/b"}}
    with pytest.raises(TaskRejected, match="tfcRunsMode to vcs"):
        await bench.apply(attempt=2)
    with pytest.raises(TaskRejected, match="letters, digits"):
        await bench.apply(spec_of(bench.server.url, workspace="a.b"))


async def test_nothing_is_built_twice_because_of_a_new_name(bench: HCPBench) -> None:
    first = await bench.apply()
    moved = bench.context(spec_of(bench.server.url, workspace="infra"), attempt=2)
    moved = replace(moved, input=replace(moved.input, outputs=first.outputs))
    with pytest.raises(TaskRejected, match="infrastructure is in workspace acme: name that one"):
        await bench.task().run(moved)
    assert len(bench.server.fake_state.workspaces) == 1
    workspace(bench).name = "infra"  # renamed by hand
    assert "nothing to change" in (await bench.task().run(moved)).message


@pytest.mark.criterion("H-B1")
async def test_h_b1_instances_of_one_name_have_workspaces_of_their_own(bench: HCPBench) -> None:
    spec = spec_of(bench.server.url)
    del spec["infrastructure"]["terraform"]["workspace"]
    context = bench.context(spec)
    owner = replace(context.input.owner, namespace="dev", uid="another")
    other = replace(context, input=replace(context.input, owner=owner))
    first, second = await bench.task().run(context), await bench.task().run(other)
    places = [each.outputs["terraform_workspace"] for each in (first, second)]
    assert places == [f"acme/{instance_key(of, 'acme')}" for of in ("prod", "dev")]
    assert len(bench.server.fake_state.workspaces) == 2


async def test_cost_estimates_and_policies_are_waited_for(bench: HCPBench) -> None:
    bench.server.fake_state.gates = [
        "cost_estimating", "cost_estimated", "policy_checking", "policy_checked",
    ]  # fmt: skip
    await bench.apply()
    [run] = runs(bench)
    assert (run.applies, run.confirmed) == (1, 1)
    assert "has its costs estimated" in bench.said()
    assert "is checked against policies" in bench.said()


async def test_a_soft_failure_of_a_policy_waits_for_a_decision(bench: HCPBench) -> None:
    fake_state = bench.server.fake_state
    fake_state.gates = ["policy_checking", "policy_override"]

    def override(doing: str) -> None:
        bench.workbench.said.append(doing)
        if "a person has to override" in doing:
            runs(bench)[0].status = "policy_checked"

    context = replace(bench.context(), progress=override)
    result = await bench.task().run(context)
    assert "3 added" in result.message


@pytest.mark.parametrize("where", ["plan", "apply"])
async def test_an_error_reports_the_end_of_the_log(bench: HCPBench, where: str) -> None:
    bench.server.fake_state.fail = where
    bench.server.fake_state.logs["next"] = (
        b'{"@message":"Terraform 1.9","@level":"info","type":"version"}\n'
        b'{"@message":"Error: quota","@level":"error","type":"diagnostic","diagnostic":'
        b'{"severity":"error","summary":"Quota exceeded","detail":"CPUS in us-central1"}}\n'
    )
    with pytest.raises(TaskError) as caught:
        await bench.apply()
    assert not isinstance(caught.value, TaskRejected)
    [run] = runs(bench)
    link = f"{bench.server.url}/app/acme/workspaces/acme/runs/{run.identity}"
    assert str(caught.value) == (
        f"run {run.identity} errored ({link}): Quota exceeded: CPUS in us-central1"
    )


async def test_a_log_that_is_text_reports_its_last_lines(bench: HCPBench) -> None:
    bench.server.fake_state.fail = "plan"
    bench.server.fake_state.logs["next"] = (
        b"\x02Terraform v1.9\n\x1b[31m\xe2\x94\x82 \x1b[0m\x1b[1mError: no zone\x1b[0m\n\xe2\x95\xb5\n"
    )
    with pytest.raises(TaskError, match=r"Error: no zone$"):
        await bench.apply()


async def test_a_mandatory_policy_is_named(bench: HCPBench) -> None:
    bench.server.fake_state.fail = "policy"
    with pytest.raises(TaskError, match="policy check hard_failed; stage post_plan failed"):
        await bench.apply()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("canceled", "was cancelled"),
        ("force_canceled", "by force"),
        ("discarded", "discarded by a person"),
        ("policy_soft_failed", "broke a policy"),
    ],
)
async def test_other_ends_are_distinguished(bench: HCPBench, status: str, words: str) -> None:
    def interfere(doing: str) -> None:
        if "plans" in doing:
            runs(bench)[0].status = status

    with pytest.raises(TaskError, match=words):
        await bench.task().run(replace(bench.context(), progress=interfere))


async def test_a_locked_workspace_names_who_and_why(bench: HCPBench) -> None:
    await bench.apply()
    found = workspace(bench)
    found.locked_by, found.reason = ("users", "user-1", "ada"), "migrating by hand"
    with pytest.raises(TaskError) as caught:
        await bench.apply(attempt=2)
    assert str(caught.value).startswith("workspace acme is locked by ada (migrating by hand)")
    assert not isinstance(caught.value, TaskRejected)
    assert len(runs(bench)) == 1
    found.locked_by = ("teams", "team-1", "sre")
    with pytest.raises(TaskError, match="locked by team sre"):
        await bench.apply(attempt=2)
    found.locked_by = None
    await bench.apply(attempt=2)


@pytest.mark.parametrize("refused", [True, False])
async def test_a_lock_that_comes_in_between(bench: HCPBench, refused: bool) -> None:
    await bench.apply()
    bench.server.fake_state.lock_refuses_runs = refused

    def lock(doing: str) -> None:
        if "uploading" in doing:
            workspace(bench).locked_by = ("users", "user-1", "ada")

    context = replace(bench.context(attempt=2), progress=lock)
    with pytest.raises(TaskError, match="is locked by ada"):
        await bench.task().run(context)
    assert all(run.ended for run in runs(bench))


async def test_a_queued_run_reports_what_is_before_it(bench: HCPBench) -> None:
    await bench.apply()
    fake_state, found = bench.server.fake_state, workspace(bench)
    other = fake_state.add_run(found, runs(bench)[0].version, "Queued manually in the UI")
    fake_state.advance(other)

    def confirm(doing: str) -> None:
        bench.workbench.said.append(doing)
        if f"queued behind run {other.identity}" in doing:
            other.status = "discarded"

    await bench.task().run(replace(bench.context(attempt=2), progress=confirm))
    assert f"queued behind run {other.identity}" in bench.said()
    assert runs(bench)[-1].status == "planned_and_finished"


@pytest.mark.parametrize("left", ["planned", "pending", "planning", "applying"])
async def test_what_another_attempt_left_behind_is_ended_first(bench: HCPBench, left: str) -> None:
    await bench.apply()
    fake_state = bench.server.fake_state
    changed = spec_of(bench.server.url, machine="n2-standard-16")

    def kill(doing: str) -> None:
        """The task is killed in that state, and can stop nothing."""
        if runs(bench)[1:] and runs(bench)[1].status == left:
            bench.server.faults.gone_from = bench.server.faults.count + 1

    context = bench.context(changed, attempt=2)
    fake_state.sticky = left
    with pytest.raises(TaskError):
        await bench.task(tries=1).run(replace(context, progress=kill))
    bench.server.faults.heal()
    fake_state.sticky = ""
    await bench.apply(changed, attempt=3)
    second, third = runs(bench)[1:]
    assert second.ended
    applied = left == "applying"
    assert (second.applies, third.applies) == ((1, 0) if applied else (0, 1))


async def test_rate_limits_are_sat_out(bench: HCPBench) -> None:
    bench.server.crowd()
    await bench.apply()
    assert bench.server.limited > 2
    assert bench.server.clock.naps.count(0.5) >= bench.server.limited
    assert len(runs(bench)) == 1
    assert bench.server.clock.passed >= 59  # lists of runs are limited by the minute


@pytest.mark.parametrize(("header", "nap"), [(("Retry-After", "3"), 3.0), (("X-None", "3"), 1.0)])
async def test_the_wait_is_what_the_server_requests(
    bench: HCPBench, header: tuple[str, str], nap: float
) -> None:
    bench.server.wait_header = header
    bench.server.crowd()
    await bench.apply()
    assert bench.server.clock.naps[0] == nap


async def test_a_limit_without_end_is_given_up(bench: HCPBench) -> None:
    bench.server.budget = 0
    with pytest.raises(
        TaskError, match="429 to GET /organizations/acme/workspaces/acme with 84 bytes"
    ):
        await bench.task(limited=20).run(bench.context())
    assert bench.server.clock.passed >= 20


async def test_the_token_goes_to_the_api_alone_and_is_never_reported(bench: HCPBench) -> None:
    bench.server.fake_state.fail = "apply"
    with pytest.raises(TaskError) as caught:
        await bench.apply()
    assert bench.server.leaks == []
    assert any(each.startswith("GET /logs/") for each in bench.server.requests)
    assert TOKEN not in str(caught.value) + bench.said()


async def test_a_bad_token_reports_what_to_do(bench: HCPBench) -> None:
    bench.workbench.secrets["hcp", "token"] = "wrong"
    with pytest.raises(TaskError, match="put a new one into its Secret") as caught:
        await bench.apply()
    assert "wrong" not in str(caught.value)
    spec = spec_of(bench.server.url)
    del spec["infrastructure"]["terraform"]["tokenFrom"]
    with pytest.raises(TaskRejected, match="tokenFrom is missing"):
        await bench.apply(spec)


async def test_a_token_that_may_only_plan(bench: HCPBench) -> None:
    bench.server.fake_state.may_apply = False
    with pytest.raises(TaskError, match="the right to apply runs"):
        await bench.apply()


async def test_an_unknown_organization_and_a_plain_address(bench: HCPBench) -> None:
    with pytest.raises(TaskError, match="organization nobody is not there"):
        await bench.apply(spec_of(bench.server.url, organization="nobody"))
    with pytest.raises(TaskRejected, match="has to begin with https"):
        await bench.apply(spec_of("http://tfe.example"))


@pytest.mark.parametrize(
    ("doing", "ended"),
    [("plans", "canceled"), ("a person has to override", "discarded"), ("applies", "canceled")],
)
async def test_cancelled_it_stops_its_run(bench: HCPBench, doing: str, ended: str) -> None:
    bench.server.fake_state.gates = ["policy_override"] if ended == "discarded" else []

    def cancel(said: str) -> None:
        if doing in said:
            task.cancel()

    task = asyncio.ensure_future(bench.task().run(replace(bench.context(), progress=cancel)))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [run.status for run in runs(bench)] == [ended]
    assert bench.server.fake_state.applied == []


async def test_teardown_destroys_then_deletes_the_workspace(bench: HCPBench) -> None:
    await bench.apply()
    result = await bench.teardown()
    assert "0 added, 0 changed, 3 destroyed; workspace acme is deleted" in result.message
    assert bench.server.fake_state.deleted == ["acme"]
    assert runs(bench)[-1].destroy
    assert (await bench.teardown(attempt=2)).message == "there is no workspace (any more)"


async def test_teardown_of_what_was_never_built(bench: HCPBench) -> None:
    assert (await bench.teardown()).message == "there is no workspace (any more)"
    bench.server.fake_state.lock_refuses_runs = True
    bench.server.faults.gone_from = 4
    with pytest.raises(TaskError):
        await bench.apply(tries=1)
    bench.server.faults.heal()
    assert runs(bench) == []
    assert "nothing was ever built" in (await bench.teardown()).message
    assert bench.server.fake_state.workspaces == {}


async def test_a_workspace_with_resources_is_not_deleted(bench: HCPBench) -> None:
    await bench.apply()

    def restore(doing: str) -> None:
        if "applies" in doing:
            bench.workbench.said.append(doing)

    context = replace(bench.context(operation=TaskOperation.TEARDOWN), progress=restore)
    store = bench.server.fake_state._store

    def keep(run: Run) -> None:
        store(run)
        run.workspace.resources = 1

    bench.server.fake_state._store = keep  # type: ignore[method-assign]
    with pytest.raises(TaskError, match="is not deleted, since it still has resources"):
        await bench.task().run(context)
    assert workspace(bench).resources == 1


async def test_vcs_mode_only_looks_on(bench: HCPBench) -> None:
    spec = {**spec_of(bench.server.url), "tfcRunsMode": "vcs"}
    with pytest.raises(TaskError, match="is not there"):
        await bench.apply(spec)
    await bench.apply()
    fake_state, found = bench.server.fake_state, workspace(bench)
    found.attributes["vcs-repo"] = {"identifier": "acme/infra"}
    changed = Version(identity="cv-vcs", workspace=found.identity, status="uploaded")
    changed.content = runs(bench)[0].version.content
    commit = fake_state.add_run(found, changed, "Merge pull request 7")
    found.digest = "older"

    def confirm(doing: str) -> None:
        bench.workbench.said.append(doing)
        if "waits for a person to confirm it" in doing:
            fake_state.confirm(commit)

    before = len(bench.server.requests)
    result = await bench.task().run(replace(bench.context(spec), progress=confirm))
    assert result.message == f"looked on: run {commit.identity}: 0 added, 3 changed, 0 destroyed"
    assert set(result.outputs) == {"project_id", "gke_clusters"}
    assert set(result.secret_outputs) == {"kubeconfig"}
    sent = bench.server.requests[before:]
    assert {each.split()[0] for each in sent} == {"GET"}
    assert "left to its repository" in (await bench.teardown(spec)).message
    assert fake_state.named("acme") is found

    fake_state.runs.clear()
    with pytest.raises(TaskError, match="commit to its repository"):
        await bench.apply(spec)
