"""Which systems stacks run: an argument of their Pods, and none by default."""

from __future__ import annotations

from click.testing import CliRunner

from internal.fleet.labels import ADMISSION, CONTROLLERS, WORKERS
from internal.fleet.stack_builder import Proof, StackOptions, build_stack
from manager.commands.operator import operator
from manager.flags.stack import SUPPORTED
from manager.options import SYSTEMS
from manager.serving.operator_run import system_arguments


def systems_of(*chosen: str) -> dict[str, list[str]]:
    """Return the arguments for systems of each workload."""
    options = StackOptions(image="stack:1", arguments=system_arguments(chosen))
    found = {}
    for each in build_stack("east", options, Proof("digest", "plane")):
        template = each.manifest.get("spec", {}).get("template")
        if template is not None:
            (container,) = template["spec"]["containers"]
            found[each.name] = [a for a in container["args"] if a.startswith("--system")]
    return found


def test_by_default_stacks_have_no_such_argument_so_that_an_upgrade_rolls_none() -> None:
    assert systems_of("tenancy") == {CONTROLLERS: [], ADMISSION: [], WORKERS: []}


def test_what_was_chosen_is_an_argument_of_every_workload() -> None:
    both = ["--system=cosmos", "--system=tenancy"]
    assert systems_of("tenancy", "cosmos") == dict.fromkeys((CONTROLLERS, ADMISSION, WORKERS), both)
    assert systems_of("cosmos")[CONTROLLERS] == ["--system=cosmos"]


def test_the_system_cloud_can_be_chosen_as_well() -> None:
    assert systems_of("cloud", "tenancy")[CONTROLLERS] == ["--system=cloud", "--system=tenancy"]
    assert set(SUPPORTED) == set(SYSTEMS)


def test_a_system_that_there_is_not_is_refused() -> None:
    result = CliRunner().invoke(operator, ["--stack-system=nonsense"])
    assert result.exit_code == 2
    assert all(name in result.output for name in SUPPORTED)
