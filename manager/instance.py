"""`manager instance`: what operators do to instances, and to many of them at once."""

import time
from pathlib import Path
from typing import Any

import click

from apis.cloud import Instance, Phase
from ctrlruntime.client.client import Client
from internal.cloud.marks import CONTROL_PLANE_MODE, PAUSED, RETRY
from internal.cloud.waves import MONTHLY, PATCH, TYPES, Wave, plan
from manager.cluster_flags import cluster_options, talk

EXTRACTED = (
    "Taken out of management: nothing is written for it. `manager instance backfill` gives it back."
)


@click.group()
def instance() -> None:
    """Instances: pause, retry, break glass, upgrade many."""


def _annotating(name: str, value: str | None, said: str) -> Any:
    """A command that sets or removes one annotation of one instance."""

    @click.argument("instance_name", metavar="NAME")
    @cluster_options
    def command(
        instance_name: str, kubeconfig: Path | None, context: str | None, namespace: str
    ) -> None:
        patch = {"metadata": {"annotations": {name: value}}}
        talk(kubeconfig, context, lambda c: c.patch(Instance, instance_name, namespace, patch))
        click.echo(f"{instance_name}: {said}")

    return command


for word, annotation, given, told, explained in (
    ("pause", PAUSED, "true", "paused; what runs is awaited", "Begin nothing new for an instance."),
    ("resume", PAUSED, None, "work goes on", "Go on with a paused instance."),
    (
        "backfill",
        CONTROL_PLANE_MODE,
        None,
        "managed again; what is unchanged is not run again",
        "Give an extracted instance back to the control plane.",
    ),
):
    instance.command(word, help=explained)(_annotating(annotation, given, told))


@instance.command()
@click.argument("name")
@cluster_options
def retry(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Ask for another attempt at whatever failed."""
    patch = {"metadata": {"annotations": {RETRY: str(time.time_ns() // 1000)}}}
    talk(kubeconfig, context, lambda client: client.patch(Instance, name, namespace, patch))
    click.echo(f"{name}: what failed is tried again")


@instance.command()
@click.argument("name")
@cluster_options
def extract(name: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Break glass: take an instance out of management. Nothing is written for it any more."""

    async def take_out(client: Client) -> None:
        patch = {"metadata": {"annotations": {CONTROL_PLANE_MODE: "false"}}}
        await client.patch(Instance, name, namespace, patch)
        status = {"phase": Phase.EXTRACTED.value, "message": EXTRACTED}
        await client.patch_status(Instance, name, namespace, {"status": status})

    talk(kubeconfig, context, take_out)
    click.echo(f"{name}: extracted. A run that was under way goes on; look at status.task.")


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

    Those of the release channels `insiders` and `pause` are passed by. The same command chooses the
    same instances, and a later stage contains the ones before it.
    """
    percent = percents or _stage(stage, patch=flags["patch"])
    if percents and stage is not None:
        raise click.UsageError("say --stage or --percent, not both")
    place = None if flags["all_namespaces"] else namespace

    async def bring(client: Client) -> Wave:
        wave = plan(await client.list(Instance, place), version, percent)
        for item in () if flags["dry_run"] else wave.upgrade:
            metadata = item.metadata
            change = {
                "metadata": {"resourceVersion": metadata.resource_version},
                "spec": {"sourcegraphVersion": version},
            }
            await client.patch(Instance, metadata.name or "", metadata.namespace, change)
        return wave

    _show(talk(kubeconfig, context, bring), dry_run=flags["dry_run"])


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


def _show(wave: Wave, *, dry_run: bool) -> None:
    verb = "would be upgraded" if dry_run else "upgraded"
    for item in wave.upgrade:
        had = item.spec.sourcegraph_version
        click.echo(f"{item.metadata.namespace}/{item.metadata.name}: {verb}, {had} -> {wave.to}")
    for passed in wave.passed:
        click.echo(f"{passed.name}: passed by, {passed.reason}")
    for kind, (there, members) in wave.counts.items():
        click.echo(f"{kind}: {there} of {members} at {wave.to}")
