"""`manager instance`: what operators do to instances, and to many of them at once."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

import click

from apis.cloud import Instance, Phase, PlannedChange, TaskOperation
from ctrlruntime.api import format_time
from ctrlruntime.client.client import Client
from ctrlruntime.clock import monotonic, wall
from ctrlruntime.controller.annotations import PAUSED as LIBRARY_PAUSED
from internal.cloud.bulk import (
    MONTHLY,
    PATCH,
    TYPES,
    Change,
    Result,
    Wave,
    apply_version,
    place_of,
    plan,
    type_of,
)
from internal.cloud.labels import CONTROL_PLANE_MODE, PAUSED, RETRY
from internal.cloud.release_assignment import version_that_counts
from internal.cloud.run_logs import LogElsewhere, NoLog, find_run, log_lines
from internal.cloud.runs.cloudrun import (
    LOGGING_URL,
    CloudAPI,
    CloudRunLogs,
    TokenSource,
    metadata_token,
)
from internal.cloud.subresource_requests import (
    NotUnlocked,
    WaitingPlan,
    cancel_runs,
    decide_on_plan,
    request_runs,
    unlock_state,
    waiting_plans,
)
from manager.commands.instance_views import describe, list_instances
from manager.commands.output import echo
from manager.flags.cluster import cluster_options, talk

TOKEN: Final = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105
"""Variable with an access token of Google, as Terraform's provider reads it."""
_HELP: Final = f"It takes roles/logging.viewer on the project, and {TOKEN}=$(gcloud auth print-access-token). The log is at:"


def _token() -> TokenSource:
    """Return the token of the variable, or else that of the machine's account."""
    given = os.environ.get(TOKEN, "")
    if not given:
        return metadata_token(monotonic)

    async def token() -> str:
        return given

    return token


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Print further lines until the run has ended.")
@click.option("--kind", default="", help="The subresource: InstanceTerraform, ...")
@click.option("--run", "run_id", default="", help="Only this run, by its id.")
@click.option(
    "--tail", default=200, show_default=True, type=click.IntRange(1), help="Lines to begin with."
)
@click.option(
    "--cloud-logging-url",
    default=LOGGING_URL,
    show_default=True,
    help="Address of Cloud Logging, which has the logs of Cloud Run.",
)
@cluster_options
def logs(
    name: str,
    follow: bool,
    kind: str,
    run_id: str,
    tail: int,
    cloud_logging_url: str,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
) -> None:
    """Print the log of the run that is under way, or else of the last one.

    Logs of Cloud Run are read from Cloud Logging, with the access token in the variable GOOGLE_OAUTH_ACCESS_TOKEN or, on a
    machine of Google, with that of its account. If that fails, their address is printed. Values of secrets were hidden
    when they were written.
    """

    async def read(client: Client) -> None:
        api = CloudAPI(_token())
        try:
            await show(client, CloudRunLogs(api, cloud_logging_url))
        finally:
            await api.close()

    async def show(client: Client, cloud: CloudRunLogs) -> None:
        found = await find_run(client, name, namespace=namespace, kind=kind, run_id=run_id)
        echo(f"{found.kind.__name__} {found.name}, run {found.run.run_id}:", err=True)
        lines = log_lines(client, found, tail=tail, follow=follow, cloud=cloud)
        async with aclosing(lines):
            async for line in lines:
                echo(line)

    try:
        talk(kubeconfig, context, read)
    except LogElsewhere as elsewhere:
        if elsewhere.reason:
            echo(f"{elsewhere.reason}. {_HELP}", err=True)
        echo(elsewhere.address)
    except NoLog as error:
        raise click.ClickException(str(error)) from error


_PLAN_OPTION = click.option(
    "--plan", "digest", default="", help="The digest of the plan, as it is shown and in the status."
)


@click.command()
@click.argument("name")
@_PLAN_OPTION
@cluster_options
def approve(
    name: str, digest: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show the plan that waits for an instance, and approve it if --plan names its digest.

    The approval is for this plan: one that is made later needs an approval of its own. Ends with 1 if nothing
    is approved. A freeze or a closed maintenance window holds an approved plan until it ends.
    """
    found = talk(kubeconfig, context, lambda client: _decide(client, name, namespace, digest, True))
    echo(f"{found.kind} {found.name}: plan {digest} is approved")


@click.command()
@click.argument("name")
@_PLAN_OPTION
@cluster_options
def reject(
    name: str, digest: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Show the plan that waits for an instance, and give it up if --plan names its digest.

    Nothing is applied, and no other plan is made until the spec changes or a retry is requested. Ends with 1 if
    nothing is rejected.
    """
    found = talk(
        kubeconfig, context, lambda client: _decide(client, name, namespace, digest, False)
    )
    echo(f"{found.kind} {found.name}: plan {digest} is rejected")
    echo(f"To plan again: manager instance retry {name}")


async def _decide(
    client: Client, name: str, namespace: str, digest: str, approves: bool
) -> WaitingPlan:
    """Print what waits, and record the decision. Raises ClickException if there is no plan of that digest."""
    plans = await waiting_plans(client, name, namespace=namespace)
    for each in plans:
        echo(plan_text(each))
    if not plans:
        raise click.ClickException(
            f"{name}: no plan waits; `manager instance describe {name}` shows its tasks"
        )
    if not digest:
        word = "approve" if approves else "reject"
        raise click.ClickException(
            f"nothing was decided: `manager instance {word} {name} --plan DIGEST` names the plan"
        )
    named = next((item.plan for item in plans if item.plan.digest == digest), None)
    if named is None:
        raise click.ClickException(f"{name}: no plan {digest} waits, nothing was decided")
    if named.operation is TaskOperation.PLAN:
        raise click.ClickException(
            f"{name}: plan {digest} is only a plan: set spec.terraformRuns.operation of the Instance to Apply"
        )
    done = await decide_on_plan(client, name, namespace=namespace, digest=digest, approve=approves)
    if done is None:
        raise click.ClickException(f"{name}: plan {digest} has just been superseded")
    return done


def plan_text(waiting: WaitingPlan) -> str:
    """Return a plan for people: its numbers, what it destroys, where it can be looked at."""
    plan = waiting.plan
    lines = [
        f"{waiting.kind} {waiting.name}: plan {plan.digest}, since {format_time(plan.since)}",
        f"  {plan.add} to add, {plan.change} to change, {plan.destroy} to destroy, {plan.replace} of them replaced",
        *(f"  {address}" for address in plan.destroys),
        *_further(plan),
    ]
    return "\n".join([*lines, f"  {plan.link}"] if plan.link else lines)


def _further(plan: PlannedChange) -> list[str]:
    more = plan.destroy - len(plan.destroys)
    return [f"  and {more} more that are destroyed or replaced"] if more > 0 else []


@click.group()
def instance() -> None:
    """Instances: list, describe, logs, pause, cancel, retry, unlock, reconcile, approve plans, break glass, upgrade many."""


instance.add_command(list_instances)
instance.add_command(describe)
instance.add_command(logs)
instance.add_command(approve)
instance.add_command(reject)


def _annotating(names: tuple[str, ...], value: str | None, said: str) -> Callable[..., object]:
    """Return a command that sets or removes annotations of one instance."""

    @click.argument("instance_name", metavar="NAME")
    @cluster_options
    def command(
        instance_name: str, kubeconfig: Path | None, context: str | None, namespace: str
    ) -> None:
        patch = {"metadata": {"annotations": dict.fromkeys(names, value)}}
        talk(
            kubeconfig,
            context,
            lambda c: c.patch(Instance, instance_name, patch, namespace=namespace),
        )
        echo(f"{instance_name}: {said}")

    return command


for word, annotations, given, told, explained in (
    (
        "pause",
        (PAUSED,),
        "true",
        "paused; what runs is awaited",
        "Begin nothing new for an instance.",
    ),
    ("resume", (PAUSED, LIBRARY_PAUSED), None, "work goes on", "Go on with a paused instance."),
    (
        "backfill",
        (CONTROL_PLANE_MODE,),
        None,
        "managed again; what is unchanged is not run again",
        "Give an extracted instance back to the control plane.",
    ),
):
    instance.command(word, help=explained)(_annotating(annotations, given, told))


@instance.command()
@click.argument("name")
@cluster_options
def retry(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Ask for another attempt at whatever failed."""
    patch = {"metadata": {"annotations": {RETRY: str(int(wall() * 1e6))}}}
    talk(
        kubeconfig, context, lambda client: client.patch(Instance, name, patch, namespace=namespace)
    )
    echo(f"{name}: what failed is tried again")


@instance.command()
@click.argument("name")
@click.option("--run", "run_id", default="", help="Only this run, by its id.")
@cluster_options
def cancel(
    name: str, run_id: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Cancel what is under way for an instance. No other attempt follows until one is requested.

    Ends with 1 if nothing is under way. What waits in the queue is kept from starting by `pause`.
    """
    found = talk(
        kubeconfig,
        context,
        lambda client: cancel_runs(client, name, namespace=namespace, run_id=run_id),
    )
    for each in found:
        echo(f"{each.kind} {each.name}: run {each.run_id} is being cancelled")
    if not found:
        what = f"run {run_id} is not" if run_id else "nothing is"
        raise click.ClickException(
            f"{name}: {what} under way; `manager instance describe {name}` shows its tasks"
        )
    echo(f"To go on: manager instance retry {name}")


@instance.command()
@click.argument("name")
@cluster_options
def unlock(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Give back the lock of Terraform's state that a run of an instance left behind, and try again.

    Ends with 1 for a lock that another holder has, which may be at work, and while a run is under way.
    """
    try:
        found = talk(
            kubeconfig, context, lambda client: unlock_state(client, name, namespace=namespace)
        )
    except NotUnlocked as error:
        raise click.ClickException(str(error)) from error
    for each in found:
        echo(
            f"{each.kind} {each.name}: the next run gives back lock {each.lock_id}, left behind by {each.run_id}"
        )


@instance.command()
@click.argument("name")
@click.option(
    "--kind", default="", help="Only the subresource of this kind: InstanceTerraform, ..."
)
@cluster_options
def reconcile(
    name: str, kind: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> None:
    """Run the tasks of an instance now, although nothing has changed: what was edited by hand is restored.

    Upgrades run once and are left out. A run under way is awaited first; a paused instance waits.
    """
    value = str(int(wall() * 1e6))
    found = talk(
        kubeconfig,
        context,
        lambda client: request_runs(client, name, namespace=namespace, value=value, kind=kind),
    )
    for each in found:
        echo(f"{each.kind} {each.name}: a run is requested")
    if not found:
        what = kind or "subresource"
        raise click.ClickException(
            f"{name}: it has no {what} to reconcile; `manager instance describe {name}` shows them"
        )


@instance.command()
@click.argument("name")
@cluster_options
def extract(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Break glass: take an instance out of management. Nothing is written for it any more."""

    async def take_out(client: Client) -> None:
        patch = {"metadata": {"annotations": {CONTROL_PLANE_MODE: "false"}}}
        await client.patch(Instance, name, patch, namespace=namespace)
        status = {"phase": Phase.EXTRACTED.value, "message": _extracted(name, namespace)}
        await client.patch_status(Instance, name, {"status": status}, namespace=namespace)

    talk(kubeconfig, context, take_out)
    echo(f"{name}: extracted. A run that was under way goes on; look at status.task.")


@instance.command()
@click.option("--to", "version", required=True, help="The version to bring them to.")
@click.option(
    "--stage",
    type=click.IntRange(1),
    help=f"Stage of a release (1-{len(MONTHLY)}), or with --patch of a patch (1-{len(PATCH)}). "
    "Default: the last. A new patch restarts at an earlier one.",
)
@click.option("--patch", is_flag=True, help="The stages are those of a patch.")
@click.option(
    "--percent",
    "percents",
    multiple=True,
    metavar="TYPE=N",
    callback=lambda _context, _option, value: _percentages(value),
    help="In place of a stage: how many percent of the instances of a type. Repeatable.",
)
@click.option("--all-namespaces", "-A", is_flag=True, help="Instances of every namespace.")
@click.option(
    "--include-unhealthy",
    is_flag=True,
    help="Draw instances that are not Ready too, such as to bring a fix to them.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing.")
@cluster_options
def upgrade(
    version: str,
    stage: int | None,
    percents: dict[str, int],
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    **flags: bool,
) -> None:
    """Bring a share of the instances to a version.

    Those of the release channels `insiders` and `pause` are skipped, and so are those that are
    paused or not healthy. The same command chooses the same instances, and a later stage contains
    the ones before it. One that fails does not stop the others; the command ends with 1 then.
    """
    percent = percents or _stage(stage, patch=flags["patch"])
    if percents and stage is not None:
        raise click.UsageError("say --stage or --percent, not both")
    place = None if flags["all_namespaces"] else namespace

    async def upgrade_wave(client: Client) -> tuple[Wave, list[Result]]:
        listed = await client.list(Instance, place)
        wave = plan(listed, version, percent, unhealthy=flags["include_unhealthy"])
        if flags["dry_run"]:
            return wave, []
        return wave, await apply_version(client, wave.upgrade, version)

    wave, results = talk(kubeconfig, context, upgrade_wave)
    _show(wave, results, dry_run=flags["dry_run"])
    if any(result.change is Change.FAILED for result in results):
        raise click.exceptions.Exit(1)


def _stage(stage: int | None, *, patch: bool) -> dict[str, int]:
    stages = PATCH if patch else MONTHLY
    number = len(stages) if stage is None else stage
    if number > len(stages):
        raise click.UsageError(f"there are {len(stages)} stages")
    return dict(stages[number - 1].percent)


def _percentages(given: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in given:
        kind, _, number = text.partition("=")
        if kind not in TYPES or not number.isdecimal() or int(number) > 100:
            raise click.BadParameter(f"{text!r}: say TYPE=N, with {', '.join(TYPES)} and 0 to 100")
        found[kind] = int(number)
    return found


def _show(wave: Wave, results: Sequence[Result], *, dry_run: bool) -> None:
    if dry_run:
        for item in wave.upgrade:
            had = version_that_counts(item)
            echo(f"{place_of(item)}: would be upgraded, {had} -> {wave.to}")
    for result in results:
        echo(f"{result.name}: {result.change.value}, {result.detail}")
    for passed in wave.passed:
        echo(f"{passed.name}: skipped, {passed.reason}")
    missed = {result.name for result in results if result.change is not Change.UPGRADED}
    behind = Counter(type_of(item) for item in wave.upgrade if place_of(item) in missed)
    for kind, (there, members) in wave.counts.items():
        echo(f"{kind}: {there - behind[kind]} of {members} at {wave.to}")


def _extracted(name: str, namespace: str) -> str:
    back = f"`manager instance backfill {name} -n {namespace}`"
    return f"Taken out of management: nothing is written for it. {back} gives it back."
