"""`manager render`: a tenant's manifests from files, the same that the manager applies."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.json import Json
from manager.cli import main
from tests.docs.blocks import ROOT
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map, mapping

SAMPLES = ROOT / "config" / "samples"
SAMPLE = SAMPLES / "tenanttemplate.yaml"
ROW = {
    "tenant_id": "t1",
    "domain": "https://t1.example.com/x",
    "is_active": 1,
    "subscription_plan": "gold",
    "container_image": "nginx:1",
    "replicas": 2,
}


def render(*arguments: str | Path, given: str | None = None) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    done = CliRunner().invoke(main, ["render", *map(str, arguments)], input=given)
    return done.exit_code, done.stdout, done.stderr


def rendered(*arguments: str | Path) -> list[dict[str, Any]]:
    """Return the manifests of a call that succeeds."""
    code, out, err = render(*arguments)
    assert (code, err) == (0, "")
    return list(yaml.safe_load_all(out))


def template(**lists: object) -> dict[str, Any]:
    head = {"apiVersion": TenantTemplate.gvk().api_version, "kind": "TenantTemplate"}
    return {**head, "metadata": {"name": "app"}, "spec": {"registryId": "shop", **lists}}


def registry(**extra: object) -> dict[str, Any]:
    head = {"apiVersion": TenantRegistry.gvk().api_version, "kind": "TenantRegistry"}
    source = {"type": "sqlite", "sqlite": {"path": "rows.db", "table": "rows"}}
    mappings = {"uid": "id", "activate": "active"}
    spec = {"source": source, "valueMappings": mappings, "extraValueMappings": extra}
    return {**head, "metadata": {"name": "shop"}, "spec": spec}


def write(path: Path, *manifests: object) -> Path:
    path.write_text(yaml.safe_dump_all(manifests))
    return path


def is_within(part: object, whole: Json) -> bool:
    """Whether everything in `part` is in `whole`, which the server may have completed."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and is_within(value, whole[key]) for key, value in part.items()
        )
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(is_within, part, whole))
    return bool(part == whole)


def test_hooks_are_named_and_printed_alone_in_the_order_of_their_runs(tmp_path: Path) -> None:
    def hook(name: str, moment: str, text: str = "{{ .uid }}") -> dict[str, Any]:
        container = {"name": "c", "image": "tool:1", "args": [text]}
        pod = {"restartPolicy": "Never", "containers": [container]}
        job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
        return {"id": name, "moment": moment, "nameTemplate": "{{ .uid }}-" + name, "spec": job}

    hooks = [
        hook("bye", "AfterDelete"),
        hook("backup", "BeforeDelete"),
        hook("prepare", "BeforeCreate"),
    ]
    lists = {"configMaps": [config_map("cm", "{{ .uid }}-cm")], "hooks": hooks}
    file = write(tmp_path / "template.yaml", template(**lists))
    code, out, err = render("-f", file, "--set", "uid=a")
    assert code == 0
    assert [each["kind"] for each in yaml.safe_load_all(out)] == ["ConfigMap"]
    named = "prepare (BeforeCreate), backup (BeforeDelete), bye (AfterDelete)"
    assert err == f"Note: hooks would run, and are printed with --hooks: {named}\n"

    jobs = rendered("-f", file, "--set", "uid=a", "--hooks")
    names = [(each["kind"], each["metadata"]["name"]) for each in jobs]
    assert names == [("Job", "a-prepare"), ("Job", "a-backup"), ("Job", "a-bye")]
    assert jobs[0]["spec"]["template"]["spec"]["containers"][0]["args"] == ["a"]
    assert jobs[0]["spec"]["activeDeadlineSeconds"] == 600

    bad = template(hooks=[hook("bad", "BeforeCreate", "{{ nothing | must }}")])
    code, out, err = render("-f", write(tmp_path / "bad.yaml", bad), "--set", "uid=a", "--hooks")
    assert (code, out) == (1, "")
    assert "hook 'bad'" in err


@pytest.mark.asyncio(loop_scope="module")
async def test_it_prints_what_the_manager_applies(
    shared_harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await Fleet.make(shared_harness)
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"token": "{{ .token }}"}}
    sample: dict[str, Any] = yaml.safe_load(SAMPLE.read_text())["spec"]
    lists: dict[str, Any] = {
        name: items for name, items in sample.items() if isinstance(items, list)
    }
    lists["secrets"] = [
        *lists["secrets"],
        {"id": "token", "nameTemplate": "{{ .uid }}-token", "spec": secret},
    ]
    for each in lists["deployments"]:
        each["waitForReady"] = False  # there are no nodes
    mappings = {
        "planId": "plan",
        "deployImage": "image",
        "token": {"column": "secret", "sensitive": True},
    }
    fleet.row("a", plan="gold", image="nginx:7", secret="squeamish")
    await fleet.registry(extraValueMappings=mappings)
    await fleet.template(**lists)
    await fleet.ready("a-app")
    stored = [
        (await fleet.read(TenantRegistry, "registry")).to_manifest(),
        (await fleet.read(TenantTemplate, "app")).to_manifest(),
    ]
    files = write(tmp_path / "all.yaml", *stored)
    row = {"uid": "a", "url": "https://a.example.com/start", "active": 1, "plan": "gold"}
    write(tmp_path / "row.yaml", {**row, "image": "nginx:7", "secret": "squeamish"})
    made = await asyncio.to_thread(
        rendered, "-f", files, "--row", tmp_path / "row.yaml", "--show-secrets"
    )
    assert [each["metadata"]["annotations"][ID] for each in made][-2:] == ["app", "web"]
    assert len(made) == 6
    for each in made:
        kind, metadata = mapping(each["apiVersion"], each["kind"]), each["metadata"]
        live = await shared_harness.client.get(
            kind, metadata["name"], namespace=metadata["namespace"]
        )
        assert is_within(each, live), metadata["name"]
        assert metadata.get("labels") == live["metadata"].get("labels")
        owned = {key: text for key, text in live["metadata"]["annotations"].items() if key in OWNED}
        assert {**metadata["annotations"], **owned} == live["metadata"]["annotations"]
        assert each.get("data") == live.get("data")


OWNED = tuple(
    f"ctrlruntime.dev/{name}" for name in ("owner", "owner-uid", "revision", "applied-fields")
)
ID = "tenancy.ctrlruntime.dev/resource-id"


def test_a_registry_reports_which_column_is_which_variable(tmp_path: Path) -> None:
    row = write(tmp_path / "row.yaml", ROW)
    arguments: list[str | Path] = [
        "-f",
        SAMPLES / "tenantregistry.yaml",
        "-f",
        SAMPLE,
        "--row",
        row,
    ]
    made = rendered(*arguments, "-n", "shop")
    assert [each["kind"] for each in made][-2:] == ["Deployment", "Service"]
    assert {each["metadata"]["namespace"] for each in made} == {"shop"}
    settings = next(each for each in made if each["kind"] == "ConfigMap")
    assert settings["data"] == {"host": "t1.example.com", "plan": "gold"}
    deployment = next(each for each in made if each["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 2


def test_without_a_registry_the_row_has_variables(tmp_path: Path) -> None:
    values = ["--set", "uid=t9", "--set", "hostOrUrl=https://h.example.com/p", "--set", "a=1=2"]
    data = {"host": "{{ .host }}", "a": "{{ .a }}"}
    file = write(tmp_path / "t.yaml", template(configMaps=[config_map("cm", "{{ .uid }}", data)]))
    (made,) = rendered("-f", file, *values)
    assert made["metadata"]["name"] == "t9"
    assert made["data"] == {"host": "h.example.com", "a": "1=2"}


def test_json_is_a_list_with_the_same_objects(tmp_path: Path) -> None:
    file = write(tmp_path / "t.yaml", template(configMaps=[config_map("cm", "{{ .uid }}", {})]))
    code, out, _ = render("-f", file, "--uid", "t1", "-o", "json")
    assert code == 0
    listed = json.loads(out)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == rendered("-f", file, "--uid", "t1")


def test_an_error_names_the_resource_and_the_field_and_the_others_are_printed(
    tmp_path: Path,
) -> None:
    bad = config_map("bad", "{{ .uid }}-bad", {"colour": "{{ .colour }}"})
    good = config_map("good", "{{ .uid }}-good", {"uid": "{{ .uid }}"})
    file = write(tmp_path / "t.yaml", template(configMaps=[bad, good]))
    code, out, err = render("-f", file, "--uid", "t1")
    assert code == 1
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(out)] == ["t1-good"]
    assert err.startswith("Error: resource 'bad': ")
    assert "data.colour" in err
    assert "'colour'" in err


def test_what_a_conversion_loses_is_a_warning(tmp_path: Path) -> None:
    data = {"n": "{{ .uid | int }}"}
    file = write(tmp_path / "t.yaml", template(configMaps=[config_map("cm", "{{ .uid }}", data)]))
    code, out, err = render("-f", file, "--uid", "t1")
    assert code == 0
    assert yaml.safe_load(out)["data"] == {"n": "0"}
    assert err == "Warning: cm: data.n: int: a value that is not a number became 0\n"


def test_a_cycle_is_named(tmp_path: Path) -> None:
    first = {**config_map("one", "one", {}), "dependIds": ["two"]}
    second = {**config_map("two", "two", {}), "dependIds": ["one"]}
    file = write(tmp_path / "t.yaml", template(configMaps=[first, second]))
    code, out, err = render("-f", file, "--uid", "t1")
    assert (code, out) == (1, "")
    assert "'app'" in err
    assert "one -> two" in err or "two -> one" in err


SECRET = {
    "id": "s",
    "nameTemplate": "{{ .uid }}-s",
    "spec": {"apiVersion": "v1", "kind": "Secret", "stringData": {"p": "{{ .password }}"}},
}


def test_secrets_and_sensitive_values_are_masked_unless_asked_for(tmp_path: Path) -> None:
    used = config_map("cm", "{{ .uid }}-cm", {"dsn": "db://{{ .password }}@h"})
    password = {"column": "secret", "sensitive": True}
    manifests = [registry(password=password), template(configMaps=[used], secrets=[SECRET])]
    file = write(tmp_path / "t.yaml", *manifests)
    row = write(tmp_path / "row.yaml", {"id": "t1", "active": True, "secret": "v1"})
    by_kind = {each["kind"]: each for each in rendered("-f", file, "--row", row)}
    assert by_kind["ConfigMap"]["data"] == {"dsn": "db://***@h"}
    assert by_kind["Secret"]["data"] == {"p": "***"}
    assert {each["apiVersion"] for each in by_kind.values()} == {"v1"}
    shown = rendered("-f", file, "--row", row, "--show-secrets")
    secret = next(each for each in shown if each["kind"] == "Secret")
    assert base64.b64decode(secret["data"]["p"]) == b"v1"


def test_a_definition_in_the_files_gives_the_scope_of_its_kind(tmp_path: Path) -> None:
    spec = {"apiVersion": "example.com/v1", "kind": "Realm", "spec": {"uid": "{{ .uid }}"}}
    realm = {"id": "realm", "nameTemplate": "{{ .uid }}", "spec": spec}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Realm", "plural": "realms"},
            "versions": [{"name": "v1"}],
        },
    }
    file = write(tmp_path / "t.yaml", template(manifests=[realm]))
    allowed = ["--allow-kind", "Realm.example.com"]
    (made,) = rendered("-f", file, "--uid", "t1", *allowed)
    assert made["metadata"]["namespace"] == "default"
    definition = write(tmp_path / "crd.yaml", crd)
    code, out, err = render("-f", file, "-f", definition, "--uid", "t1")
    assert (code, out) == (1, "")
    assert "resource 'realm'" in err
    assert "--allow-kind" in err
    (made,) = rendered("-f", file, "-f", definition, "--uid", "t1", *allowed)
    assert "namespace" not in made["metadata"]


@pytest.mark.parametrize(
    ("row", "arguments", "message"),
    [
        ([{"id": "a", "active": 0}], [], "the row is not active"),
        ([{"id": "A_", "active": 1}], [], "IllegalUid"),
        ([{"id": "a", "active": "maybe"}], [], "UnknownActivation"),
        ([{"id": "a"}], [], "row 1 has no column 'active'"),
        ([{"id": "a", "active": 1}, {"id": "b", "active": 1}], [], "choose one by its uid: a, b"),
        ([{"id": "a", "active": 1}], ["--uid", "z"], "there is no row with uid 'z'"),
        (["a"], [], "a row is a mapping"),
    ],
)
def test_a_row_that_makes_no_tenant_is_explained(
    row: list[Any], arguments: list[str], message: str, tmp_path: Path
) -> None:
    one = config_map("cm", "{{ .uid }}", {})
    file = write(tmp_path / "t.yaml", registry(), template(configMaps=[one]))
    rows = write(tmp_path / "rows.yaml", row)
    code, out, err = render("-f", file, "--row", rows, *arguments)
    assert (code, out) == (1, "")
    assert message in err


def test_one_of_several_rows_is_chosen_by_its_uid(tmp_path: Path) -> None:
    one = config_map("cm", "{{ .uid }}", {})
    file = write(tmp_path / "t.yaml", registry(), template(configMaps=[one]))
    rows = write(tmp_path / "rows.yaml", [{"id": "a", "active": 1}, {"id": "b", "active": 1}])
    (made,) = rendered("-f", file, "--row", rows, "--uid", "b")
    assert made["metadata"]["name"] == "b"
