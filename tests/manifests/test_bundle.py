"""The OLM bundle: what OLM would make of it is what kustomize installs, and it passes the scorecard's checks by file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import ctrlruntime
from ctrlruntime.client.client import Client
from manager.manifests.folders import SYSTEMS
from tests.manifests.installation import NAMESPACE, ROOT, Manifest, kustomized
from tests.manifests.test_kustomize import accepted

pytestmark = pytest.mark.xdist_group("manifests")
PREFIX = "operators.operatorframework.io"
OF_OLM = ("Namespace", "ServiceAccount", "Deployment", "CustomResourceDefinition")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that `make bundle` fills."""
    folder = tmp_path_factory.mktemp("bundle") / "bundle"
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / "hack" / "bundle.sh", folder], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(folder)
    return folder


@pytest.fixture(scope="module")
def objects(bundle: Path) -> list[Manifest]:
    """Return the manifests of the bundle."""
    found = [yaml.safe_load(path.read_text()) for path in sorted((bundle / "manifests").iterdir())]
    assert all(isinstance(each, dict) for each in found)  # one object a file, as OLM reads them
    return found


@pytest.fixture(scope="module")
def csv(objects: list[Manifest]) -> Manifest:
    """Return the ClusterServiceVersion."""
    (found,) = (each for each in objects if each["kind"] == "ClusterServiceVersion")
    return found


def _crds(objects: list[Manifest]) -> list[Manifest]:
    return [each for each in objects if each["kind"] == "CustomResourceDefinition"]


def _examples(csv: Manifest) -> list[Manifest]:
    found: list[Manifest] = json.loads(csv["metadata"]["annotations"]["alm-examples"])
    return found


def test_the_annotations_lead_to_what_is_there_and_are_the_labels_of_the_image(
    bundle: Path,
) -> None:
    annotations = yaml.safe_load((bundle / "metadata" / "annotations.yaml").read_text())[
        "annotations"
    ]
    assert annotations[f"{PREFIX}.bundle.mediatype.v1"] == "registry+v1"
    for part in ("bundle.manifests", "bundle.metadata", "test.config"):
        assert (bundle / annotations[f"{PREFIX}.{part}.v1"]).is_dir()
    channels = annotations[f"{PREFIX}.bundle.channels.v1"].split(",")
    assert annotations[f"{PREFIX}.bundle.channel.default.v1"] in channels
    dockerfile = (bundle / "bundle.Dockerfile").read_text()
    assert dict(re.findall(r"^LABEL (\S+?)=(\S+)$", dockerfile, re.MULTILINE)) == annotations
    assert all(
        (bundle / each).is_dir() for each in re.findall(r"^COPY (\S+)", dockerfile, re.MULTILINE)
    )


def test_the_version_is_that_of_the_distributions(csv: Manifest) -> None:
    version = ctrlruntime.__version__
    assert csv["metadata"]["name"] == f"ctrlruntime-manager.v{version}"
    assert csv["spec"]["version"] == version
    image = csv["spec"]["relatedImages"][0]["image"]
    assert csv["metadata"]["annotations"]["containerImage"] == image
    assert image.endswith(f":{version}")


def test_what_olm_installs_is_what_kustomize_does(csv: Manifest, objects: list[Manifest]) -> None:
    installed = {(each["kind"], each["metadata"]["name"]): each for each in kustomized("by-system")}
    spec = csv["spec"]["install"]["spec"]
    accounts = {}
    for deployment in spec["deployments"]:
        assert deployment["spec"] == installed["Deployment", deployment["name"]]["spec"]
        accounts[deployment["spec"]["template"]["spec"]["serviceAccountName"]] = deployment["name"]
    assert set(accounts) == {name for kind, name in installed if kind == "ServiceAccount"}
    assert len(accounts) == len(SYSTEMS)
    for crd in _crds(objects):
        assert crd == installed[crd["kind"], crd["metadata"]["name"]]
    assert len(_crds(objects)) == sum(kind == "CustomResourceDefinition" for kind, _ in installed)
    for permissions, kind in (("clusterPermissions", "ClusterRole"), ("permissions", "Role")):
        granted = {each["serviceAccountName"]: each["rules"] for each in spec[permissions]}
        assert granted.keys() == accounts.keys()
        for account, rules in granted.items():
            assert _sorted(rules) == _sorted(_rules(installed, kind, account))
    carried = {(each["kind"], each["metadata"]["name"]) for each in objects}
    by_olm = {each for each in installed if each[0] in OF_OLM or each[0].endswith("Binding")} | {
        (kind, name)
        for kind, name in installed
        if any(name in _bound(installed, account) for account in accounts)
    }
    assert set(installed) - by_olm <= carried


def _bound(installed: dict[tuple[str, str], Manifest], account: str) -> list[str]:
    """Return the roles that an account is bound to."""
    return [
        each["roleRef"]["name"]
        for (kind, _), each in installed.items()
        if kind.endswith("RoleBinding") and each["subjects"][0]["name"] == account
    ]


def _rules(installed: dict[tuple[str, str], Manifest], kind: str, account: str) -> list[Any]:
    roles = [
        installed[kind, name] for name in _bound(installed, account) if (kind, name) in installed
    ]
    return [rule for role in roles if "aggregationRule" not in role for rule in role["rules"]]


def _sorted(rules: list[Any]) -> list[str]:
    return sorted(json.dumps(rule, sort_keys=True) for rule in rules)


def test_basic_check_spec(csv: Manifest) -> None:
    assert _examples(csv)
    assert all(each["spec"] for each in _examples(csv))


def test_olm_bundle_validation(csv: Manifest, objects: list[Manifest]) -> None:
    owned = {
        (each["name"], each["version"], each["kind"])
        for each in csv["spec"]["customresourcedefinitions"]["owned"]
    }
    defined = {
        (crd["metadata"]["name"], version["name"], crd["spec"]["names"]["kind"])
        for crd in _crds(objects)
        for version in crd["spec"]["versions"]
    }
    assert owned == defined
    known = {(kind, version) for _, version, kind in owned}
    assert {(each["kind"], each["apiVersion"].split("/")[1]) for each in _examples(csv)} <= known
    modes = {each["type"]: each["supported"] for each in csv["spec"]["installModes"]}
    assert modes["AllNamespaces"]
    assert len(modes) == 4
    for name in ("displayName", "description", "icon", "keywords", "maintainers", "provider"):
        assert csv["spec"][name], name


def test_olm_crds_have_validation(objects: list[Manifest]) -> None:
    for crd in _crds(objects):
        for version in crd["spec"]["versions"]:
            assert version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def test_olm_crds_have_resources(csv: Manifest) -> None:
    for owned in csv["spec"]["customresourcedefinitions"]["owned"]:
        assert owned["resources"], owned["kind"]


@pytest.mark.parametrize("part", ["spec", "status"])
def test_olm_descriptors_describe_every_field(
    csv: Manifest, objects: list[Manifest], part: str
) -> None:
    schemas = {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for crd in _crds(objects)
    }
    for owned in csv["spec"]["customresourcedefinitions"]["owned"]:
        fields = schemas[owned["kind"]]["properties"][part].get("properties", {})
        described = {each["path"]: each for each in owned[f"{part}Descriptors"]}
        assert set(described) == set(fields)
        assert all(each["displayName"] and each["description"] for each in described.values())
    for example in _examples(csv):
        (owned,) = (
            each
            for each in csv["spec"]["customresourcedefinitions"]["owned"]
            if each["kind"] == example["kind"]
        )
        assert set(example.get(part, {})) <= {each["path"] for each in owned[f"{part}Descriptors"]}


def test_the_scorecard_runs_each_of_these_checks(bundle: Path) -> None:
    config = yaml.safe_load((bundle / "tests" / "scorecard" / "config.yaml").read_text())
    names = {each["entrypoint"][1] for stage in config["stages"] for each in stage["tests"]}
    assert names == {
        "basic-check-spec",
        "olm-bundle-validation",
        "olm-crds-have-validation",
        "olm-crds-have-resources",
        "olm-spec-descriptors",
        "olm-status-descriptors",
    }


@pytest.mark.asyncio(loop_scope="module")
async def test_the_real_server_takes_what_olm_makes_of_it(
    installation: Client, csv: Manifest, objects: list[Manifest]
) -> None:
    made = [*_as_olm(csv), *(each for each in objects if each is not csv)]
    assert {"Deployment", "ClusterRole", "Role", "ServiceAccount"} <= {m["kind"] for m in made}
    for each in made:
        await accepted(installation, each, NAMESPACE)


def _as_olm(csv: Manifest) -> Iterator[Manifest]:
    """Yield what OLM makes of a ClusterServiceVersion, in the suggested namespace."""
    namespace = csv["metadata"]["annotations"]["operatorframework.io/suggested-namespace"]
    assert namespace == NAMESPACE
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    place = {"namespace": namespace}
    rbac = "rbac.authorization.k8s.io"
    spec = csv["spec"]["install"]["spec"]
    for part, kind, where in (
        ("clusterPermissions", "ClusterRole", {}),
        ("permissions", "Role", place),
    ):
        for number, granted in enumerate(spec[part]):
            name = f"{csv['metadata']['name']}-{number}"
            account = {"name": granted["serviceAccountName"], **place}
            yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}
            role = {"apiVersion": f"{rbac}/v1", "kind": kind, "metadata": {"name": name, **where}}
            yield {**role, "rules": granted["rules"]}
            yield {
                **role,
                "kind": f"{kind}Binding",
                "roleRef": {"apiGroup": rbac, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", **account}],
            }
    for deployment in spec["deployments"]:
        metadata = {"name": deployment["name"], "labels": deployment["label"], **place}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": deployment["spec"],
        }
