"""The tables of the documents say what the code says."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import click
import pytest
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from apis import tenancy
from apis.tenancy import places
from ctrlruntime import resources
from ctrlruntime.controller import annotations as annotation_keys
from ctrlruntime.envtest import Environment, fixtures
from ctrlruntime.envtest.backends.kube_apiserver import KubeApiserverOptions
from ctrlruntime.envtest.command import main as envtest_main
from ctrlruntime.envtest.environment import BACKENDS
from ctrlruntime.envtest.nodes import kinds as node_kinds
from ctrlruntime.envtest.proxy import Action
from ctrlruntime.lifecycle import remote
from ctrlruntime.lifecycle import status as statuses
from ctrlruntime.resources import readiness
from ctrlruntime.resources.applied_fields import FIELDS as APPLIED_FIELDS
from ctrlruntime.resources.builder_changes import INPUTS
from ctrlruntime.resources.ordinal import ORDINAL
from internal.approvals import reconciler as approvals_reconciler
from internal.cloud.bulk import MONTHLY, TYPES
from internal.cloud.subresources import SUBRESOURCES
from internal.cosmos.workload.checksums import CONFIG_CHECKSUM
from internal.fleet import hub
from internal.named_secrets import Purpose
from internal.tenancy.objects.graph import MOST_RESOURCES
from internal.tenancy.registry import planner as registry_planner
from internal.tenancy.registry import query_schedule
from internal.tenancy.registry import reports as registry_reports
from internal.tenancy.registry import status as registry_status
from internal.tenancy.registry import teardown as registry_teardown
from internal.tenancy.rendering import Renderer, limits, templates
from internal.tenancy.rendering.functions import FUNCTIONS, REFUSED
from internal.tenancy.rows import row as rows
from internal.tenancy.shared import labels as label_keys
from internal.tenancy.shared import metrics, missing_permissions, outcome, policies
from internal.tenancy.sources import errors, queries, state_writer, write_back
from internal.tenancy.sources import limits as source_limits
from internal.tenancy.sync import deletion_guard, plan
from internal.tenancy.template import reconciler as template_reconciler
from internal.tenancy.template import reports as template_reports
from internal.tenancy.template import rollout_status
from internal.tenancy.tenant import applier, reports, slots
from manager.cli import main as manager_main
from tests.docs.blocks import ROOT, table, words

TENANCY = "docs/tenancy.md"
RESOURCES = "docs/packages/resources.md"
NUMBERED = "docs/numbered-instances.md"
CLOUD = "docs/cloud.md"
COSMOS = "docs/cosmos.md"
TEXT = (ROOT / TENANCY).read_text()

FIELDS: dict[str, type[BaseModel]] = {
    "field": tenancy.TResource,
    "`spec.source`": tenancy.TenantRegistrySource,
    "`spec.source.writeBack`": tenancy.WriteBack,
    "`spec.source.mysql`": tenancy.MySQLSource,
    "`spec.source.mysql.tls`": tenancy.DatabaseTLS,
    "`spec.source.postgresql`": tenancy.PostgreSQLSource,
    "`spec.source.sqlite`": tenancy.SQLiteSource,
    "`spec.valueMappings`": tenancy.ValueMappings,
    "`spec.deletionGuard`": tenancy.DeletionGuard,
    "`TenantRegistry.status`": tenancy.TenantRegistryStatus,
    "`TenantTemplate.status`": tenancy.TenantTemplateStatus,
    "`Tenant.status`": tenancy.TenantStatus,
}


def defaults(model: type[BaseModel]) -> dict[str, str | None]:
    """Fields by wire name with their default as it is written; None where there is no value."""
    found: dict[str, str | None] = {}
    for name, item in model.model_fields.items():
        wire = item.alias or name
        if item.is_required():
            found[wire] = "required"
        elif item.default in (None, "", PydanticUndefined):
            found[wire] = None
        elif isinstance(item.default, bool):
            found[wire] = str(item.default).lower()
        elif isinstance(item.default, Enum):
            found[wire] = str(item.default.value)
        else:
            found[wire] = str(item.default)
    return found


@pytest.mark.parametrize("header", FIELDS)
def test_tables_of_fields_are_complete_and_have_the_defaults(header: str) -> None:
    expected = defaults(FIELDS[header])
    found = {words(row[0])[0]: row for row in table(TENANCY, header)}
    assert list(found) == list(expected)
    if "status" in header:
        return
    for name, default in expected.items():
        said = found[name][1]
        if default is not None:
            assert said.strip("`") == default, name
        else:
            assert not words(said) or said.startswith("`spec."), f"{name} has no default: {said}"


def test_the_sixteen_lists_are_named() -> None:
    lists = [item.alias for item in tenancy.ResourceLists.model_fields.values()]
    assert len(lists) == 16
    assert " ".join(f"`{name}`" for name in lists) in TEXT.replace("\n", " ")


@pytest.mark.parametrize(
    ("header", "policy"),
    [
        ("`creationPolicy`", tenancy.CreationPolicy),
        ("`deletionPolicy`", tenancy.DeletionPolicy),
        ("`conflictPolicy`", tenancy.ConflictPolicy),
        ("`patchStrategy`", tenancy.PatchStrategy),
        ("`onImmutable`", tenancy.OnImmutable),
    ],
)
def test_policies_have_all_their_values(header: str, policy: type[Enum]) -> None:
    said = {words(row[0])[0] for row in table(TENANCY, header)}
    assert said == {str(value.value) for value in policy}


@pytest.mark.parametrize("command", ["run"])
def test_options_of_the_manager_are_those_of_the_command(command: str) -> None:
    context = click.Context(manager_main)
    made = manager_main.get_command(context, command)
    assert made is not None
    rows = [*table(TENANCY, "option"), *table(CLOUD, "option"), *table(COSMOS, "option")]
    found = {words(row[0])[0]: row[1] for row in rows}
    options = {item.opts[0]: item for item in made.params if not getattr(item, "hidden", False)}
    assert sorted(found) == sorted(options)
    assert len(found) == len(rows)
    for name, option in options.items():
        default = option.default if isinstance(option.default, str | int | float) else ""
        if default:
            assert found[name].strip("`") == str(default), name
        else:
            assert not words(found[name]), name


def test_limits_of_tasks_are_those_of_the_code() -> None:
    said = {words(row[0])[0]: (int(row[1]), int(row[2])) for row in table(CLOUD, "task")}
    definitions = [item.definition for item in SUBRESOURCES]
    assert said == {
        item.name: (item.concurrency.limit, item.concurrency.starts_per_minute)
        for item in definitions
    }


def test_stages_of_a_release_are_those_of_the_code() -> None:
    said = [[cell.strip() for cell in row] for row in table(CLOUD, "stage")]
    assert said == [
        [str(number), stage.days, *(str(stage.percent[kind]) for kind in TYPES)]
        for number, stage in enumerate(MONTHLY, 1)
    ]


# -- template language -------------------------------------------------------------------------


def test_every_function_is_documented() -> None:
    listed = [name for row in table(TENANCY, "functions") for name in words(row[1])]
    assert len(listed) == len(set(listed))
    assert set(listed) == set(FUNCTIONS)


def test_refused_functions_named_in_the_text_are_refused() -> None:
    sentence = TEXT[TEXT.index("**Functions that would give") :].split("\n\n")[0]
    assert set(words(sentence)) - set(REFUSED) == set()


ROW = {
    "uid": "acme",
    "planId": "",
    "replicas": "3",
    "hostOrUrl": "https://acme.example.com:8443/x",
    "host": "acme.example.com",
    "zones": '["a","b"]',
}


@pytest.mark.parametrize(("template", "yields"), [
    (words(row[0])[0], words(row[1])[0]) for row in table(TENANCY, "template")
])  # fmt: skip
async def test_examples_of_templates_yield_what_they_say(template: str, yields: str) -> None:
    renderer = Renderer()
    try:
        rendered = await renderer.render({"spec": {"x": template}}, ROW)
    finally:
        await renderer.close()
    assert rendered["spec"]["x"] == json.loads(yields)


def test_limits_are_those_of_the_code() -> None:
    said = {row[0]: row[1] for row in table(TENANCY, "of one manifest")}
    assert said == {
        "loop steps": f"{limits.WORKER.steps:,}",
        "characters that functions work on": f"{limits.WORKER.work:,}",
        "characters put out": f"{limits.WORKER.output:,}",
        "one template string": f"{templates.LONGEST_TEMPLATE:,} characters",
        "elements of a list": f"{limits.LONGEST_LIST:,}",
        "whole numbers": "64 bits",
        "nesting": f"{limits.DEEPEST_VALUE} levels",
    }
    assert f"at most {MOST_RESOURCES}\nresources" in TEXT
    assert f"{rows.LARGEST_VALUE // 1024} KiB" in TEXT
    assert f"{rows.LARGEST_ROW // 1024} KiB" in TEXT


def test_activation_values_and_reserved_names_are_those_of_the_code() -> None:
    text = TEXT.replace("\n", " ")
    said = re.search(r"one of `([^`]+)`\. `([^`]+)`, nothing", text)
    assert said is not None
    assert set(said[1].split()) == rows.TRUTHY
    assert set(said[2].split()) == rows.FALSY - {""}
    names = re.search(r"The names (.*?) are taken", text)
    assert names is not None
    assert set(words(names[1])) == rows.RESERVED


# -- readiness, labels, conditions, events, metrics ------------------------------------------------


def test_readiness_rules_are_all_listed() -> None:
    listed = [name for row in table(TENANCY, "readiness") for name in words(row[0])]
    expected = [*readiness._RULES, *readiness.EXISTENCE]
    assert sorted(listed) == sorted(map(str, expected))


def constants(module: ModuleType) -> set[str]:
    """Constants of a module that look like keys of labels and annotations."""
    prefixes = (f"{tenancy.GROUP}/", "ctrlruntime.dev/")
    return {
        value
        for value in vars(module).values()
        if isinstance(value, str) and value.startswith(prefixes)
    }


def test_labels_and_annotations_are_all_listed() -> None:
    listed = {words(row[0])[0] for row in table(TENANCY, "marks")}
    listed |= {words(row[0])[0] for row in table(TENANCY, "annotation")}
    found = (
        constants(label_keys)
        | constants(policies)
        | constants(annotation_keys)
        | constants(resources)
        | {APPLIED_FIELDS}
        | {Purpose.DATABASE.value}
    )
    numbered = {ORDINAL, INPUTS}
    """Of instances with numbers, which tenants are not."""
    assert listed == found - {label_keys.FINALIZER} - numbered
    assert {words(row[0])[0] for row in table(RESOURCES, "annotation")} == numbered
    assert {words(row[0])[0] for row in table(NUMBERED, "annotation")} == {CONFIG_CHECKSUM}
    assert f"`{label_keys.FINALIZER}`" in TEXT
    assert f"`{label_keys.FIELD_MANAGER}`" in TEXT


SPOKEN = (
    outcome, registry_status, template_reconciler, template_reports, statuses, deletion_guard, plan, errors, queries,
    query_schedule, registry_planner, registry_reports, registry_teardown, reports, rollout_status, missing_permissions,
    remote, places, applier, hub, state_writer, write_back, source_limits, approvals_reconciler, slots,
)  # fmt: skip
"""Modules whose CamelCase words end up in conditions and events."""
ACTIONS = {"Query", "Plan", "Build", "Validate", "Retain", "Apply", "Skip"}
"""What events say was being done."""
ELSEWHERE = {
    "TenantTemplate", "TenantRegistry", "DeletionsHeld", "DataUpdated", "TemplateApplied",
    "SpecRestored", "TemplateRolledBack", "RowGoneOrInactive", "TemplateGone",
}  # fmt: skip
"""Kinds, and reasons that only logs give."""


def spoken(module: ModuleType) -> set[str]:
    """CamelCase words among the strings of a module."""
    tree = ast.parse(Path(inspect.getfile(module)).read_text())
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"([A-Z][a-z]*){2,}|TLSFailed", node.value)
    }


def test_conditions_and_reasons_are_those_of_the_code() -> None:
    listed = {
        word for row in table(TENANCY, "conditions") for cell in row[1:] for word in words(cell)
    }
    events = {word for row in table(TENANCY, "events") for word in words(row[1])}
    said = set().union(*(spoken(module) for module in SPOKEN)) - ELSEWHERE - ACTIONS
    assert said - listed - events == set(), "in the code, not in the document"
    single = {"Ready", "Valid", "Applied", "Progressing", "Conflicted", "Degraded", "Paused"}
    single |= {"ApprovalsCount", "Counted"}
    single |= {"Reconciled", "Reconciling", "Healthy", "Synced", "Granted", "Written", "Frozen"}
    assert listed - said - single - ELSEWHERE == set(), "in the document, not in the code"


def test_events_are_those_of_the_code() -> None:
    listed = {word for row in table(TENANCY, "events") for word in words(row[1])}
    said = set().union(*(spoken(module) for module in SPOKEN))
    assert listed - said == set()
    recorded = set()
    for module in (
        query_schedule,
        registry_planner,
        registry_reports,
        template_reports,
        reports,
    ):
        for node in ast.walk(ast.parse(Path(inspect.getfile(module)).read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "event":
                of = 1 if ast.unparse(node.func) == "this.event" else 2
                recorded |= {a.value for a in node.args[of : of + 1] if isinstance(a, ast.Constant)}
    assert recorded - listed == set()


def test_metrics_are_all_listed_with_their_labels() -> None:
    registry = CollectorRegistry()
    made = metrics.TenancyMetrics(registry)
    expected = {
        name: set(item._labelnames)
        for item in vars(made).values()
        if hasattr(item, "_labelnames")
        for name in [item._name + ("_total" if item._type == "counter" else "")]
    }
    listed = {
        name: set(words(row[1])) for row in table(TENANCY, "metrics") for name in words(row[0])
    }
    assert listed == expected


# -- the library's pages ---------------------------------------------------------------------------


def test_metrics_of_the_runtime_exist() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text()
    prefixes = "controller_runtime_|workqueue_|rest_client_|leader_election_|ctrlruntime_"
    said = set(re.findall(rf"`((?:{prefixes})\w+)`", text))
    assert len(said) > 5
    sources = "".join(path.read_text() for path in (ROOT / "ctrlruntime").rglob("*.py"))
    for name in said:
        stem = re.sub(r"^controller_runtime_", "", name).removesuffix("_total")
        assert stem in sources, name


def test_arguments_of_the_environment_are_listed() -> None:
    listed = [words(row[0])[0] for row in table("docs/envtest.md", "`Environment(...)`")]
    expected = [name for name in inspect.signature(Environment).parameters if name != "self"]
    assert sorted(listed) == sorted(expected)


def test_backends_and_their_options_are_listed() -> None:
    listed = {words(row[0])[0] for row in table("docs/envtest.md", "backends")}
    assert listed - {"existing(...)"} == {name for name in BACKENDS if "embedded" not in name}
    rows = table("docs/envtest.md", "kube-apiserver options")
    options = [word for row in rows for word in words(row[0])]
    assert sorted(options) == sorted(each.name for each in dataclasses.fields(KubeApiserverOptions))


def test_fixtures_are_listed() -> None:
    listed = {words(row[0])[0] for row in table("docs/envtest.md", "fixture")}
    source = inspect.getsource(fixtures)
    made = set(re.findall(r"^(?:async )?def ((?!pytest_)[a-z]\w*)\(", source, re.MULTILINE))
    assert listed == made - {"envtest_config"}


def test_faults_are_listed() -> None:
    listed = {word for row in table("docs/envtest.md", "faults") for word in words(row[0])}
    assert listed == {action.__name__ for action in get_args(Action)}


def test_options_of_the_server_are_listed() -> None:
    listed = {word for row in table("docs/envtest.md", "option") for word in words(row[0])}
    options: set[str] = set()
    for item in envtest_main.params:
        options |= {*item.opts, *item.secondary_opts}
    assert listed == options


def test_annotations_of_pods_are_listed() -> None:
    listed = {words(row[0])[0] for row in table("docs/envtest.md", "annotation")}
    found: Any = {node_kinds.RUN_LOCAL, node_kinds.RUN_SECONDS, node_kinds.SIMULATE}
    assert listed == found


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"`[^`\n]*`", "", page.read_text())
        for target in re.findall(r"\]\(([^)#\s]+)?(#[^)\s]+)?\)", text):
            path, anchor = target
            if path.startswith("http"):
                continue
            place = (page.parent / path) if path else page
            assert place.exists(), f"{page.name}: {path}"
            if anchor:
                assert anchor in headings(place), f"{page.name}: {path}{anchor}"


def headings(page: Path) -> set[str]:
    """Anchors as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}
