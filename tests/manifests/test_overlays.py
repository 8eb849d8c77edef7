"""An installation with one system, or of some namespaces, has its rights and no others (H-D4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.client.client import Client
from ctrlruntime.generate import roles
from ctrlruntime.generate.discovery import find_kinds, load
from ctrlruntime.generate.permissions import policy_rules, writes_events
from manager.manifests import folders as made
from tests.audit.rights import granted, rights_of
from tests.backends import SharedServer
from tests.manifests.installation import NAMESPACE, Manifest, kustomized, namespaced

pytestmark = [pytest.mark.criterion("H-D4"), pytest.mark.xdist_group("manifests")]

FREEZES = "changefreezes.operations.ctrlruntime.dev"
CLUSTER_WIDE = ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding")


@pytest.mark.parametrize("system", made.SYSTEMS)
def test_h_d4_an_overlay_has_one_system_and_its_rights(system: str) -> None:
    objects = {
        (each["kind"], each["metadata"]["name"]): each for each in kustomized(f"only-{system}")
    }
    own = find_kinds(load([made.SYSTEMS[system].module, made.OPERATIONS]))
    crds = {name for kind, name in objects if kind == "CustomResourceDefinition"}
    assert crds == {f"{kind.mapping().plural}.{kind.gvk().group}" for kind in own}
    role = objects["ClusterRole", "ctrlruntime-manager-role"]
    wanted, *_ = roles([*writes_events(), *made.rules_of(system)])
    assert role["rules"] == wanted["rules"]
    groups = {group for rule in role["rules"] for group in rule["apiGroups"]}
    others = {f"{name}.ctrlruntime.dev" for name in made.SYSTEMS if name != system}
    assert not groups & others
    people = {name for kind, name in objects if kind == "ClusterRole" and "-editor-" in name}
    assert people == {f"ctrlruntime-{kind.gvk().kind.lower()}-editor-role" for kind in own}
    bound = ("ClusterRoleBinding", "ctrlruntime-manager-aggregated-rolebinding") in objects
    assert bound is (system == "tenancy")
    deployment = objects["Deployment", "ctrlruntime-controller-manager"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert f"--system={system}" in container["args"]


@pytest.mark.parametrize("system", made.SYSTEMS)
async def test_h_d4_a_real_server_takes_an_overlay(system: str, real_server: SharedServer) -> None:
    async with Client.connect(real_server.config) as client:
        for each in kustomized(f"only-{system}"):
            if each["kind"] in CLUSTER_WIDE:
                await client.apply(each, field_manager="test", force=True, dry_run=True)


# -- some namespaces -----------------------------------------------------------------------------

WATCHED = ("shops", "billing")
MANAGER_ROLE = "ctrlruntime-manager-role"
AGGREGATED = "ctrlruntime-manager-aggregated-role"


def namespace_of(manifest: Manifest) -> str:
    return str(manifest["metadata"].get("namespace", ""))


def test_h_d4_namespaced_resources_are_granted_in_the_watched_namespaces_alone(
    tmp_path: Path,
) -> None:
    """What each Role and the ClusterRole give is what controllers declare, by the scope of the kind."""
    objects = namespaced(tmp_path, WATCHED)
    bound = [
        each
        for each in objects
        if each.get("roleRef", {}).get("name") in (MANAGER_ROLE, AGGREGATED)
    ]
    roles = [each for each in objects if each["metadata"]["name"] in (MANAGER_ROLE, AGGREGATED)]
    found = granted([*roles, *bound])
    declared = {
        right
        for rule in policy_rules(
            [*writes_events(), *(r for s in made.SYSTEMS for r in made.rules_of(s))]
        )
        for right in rights_of(rule)
    }
    cluster_scoped = {each.resource for each in BUILTIN.values() if not each.namespaced}
    cluster_scoped.add(FREEZES)
    wide = {right for right in declared if right.plural in cluster_scoped}
    assert {right.plural for right in wide} == {
        FREEZES,
        "customresourcedefinitions.apiextensions.k8s.io",
        "storageclasses.storage.k8s.io",
        "namespaces",
    }
    expected = {right for right in wide if right.plural != "namespaces"}
    expected |= {right._replace(namespace=n) for right in declared - wide for n in WATCHED}
    own = policy_rules([made.READS_OWN_POD, *writes_events()])
    expected |= {right for rule in own for right in rights_of(rule, NAMESPACE)}
    assert found == expected


def test_h_d4_the_aggregated_role_holds_in_the_watched_namespaces_alone(tmp_path: Path) -> None:
    objects = namespaced(tmp_path, WATCHED)
    bound = [each for each in objects if each.get("roleRef", {}).get("name") == AGGREGATED]
    assert [(each["kind"], namespace_of(each)) for each in bound] == [
        ("RoleBinding", name) for name in sorted(WATCHED)
    ]


def test_h_d4_every_binding_of_the_overlay_is_to_the_managers_account(tmp_path: Path) -> None:
    account = {
        "kind": "ServiceAccount",
        "name": "ctrlruntime-controller-manager",
        "namespace": NAMESPACE,
    }
    for each in namespaced(tmp_path, WATCHED):
        if each["kind"].endswith("Binding"):
            assert each["subjects"] == [account]


def test_h_d4_the_manager_of_the_overlay_watches_these_namespaces(tmp_path: Path) -> None:
    (deployment,) = (e for e in namespaced(tmp_path, WATCHED) if e["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = [each for each in container["args"] if each.startswith("--namespace=")]
    assert given == [f"--namespace={name}" for name in WATCHED]


def test_h_d4_edited_namespaces_are_drift_until_the_overlay_is_generated(tmp_path: Path) -> None:
    made.generate(tmp_path)
    file = tmp_path / "namespaced" / "namespaces.txt"
    file.write_text("# ours\n shops \n\nshops\nbilling # the other\n")
    assert made.read_namespaces(file) == ["shops", "billing"]
    assert "+  namespace: shops" in made.check(tmp_path)
    made.generate(tmp_path)
    assert made.check(tmp_path) == ""
    file.write_text("# none\n")
    with pytest.raises(ValueError, match=r"namespaces\.txt names no namespace"):
        made.check(tmp_path)


async def test_h_d4_a_real_server_takes_the_overlay_of_namespaces(
    real_server: SharedServer,
) -> None:
    async with Client.connect(real_server.config) as client:
        for each in kustomized("namespaced"):
            if each["kind"] in CLUSTER_WIDE or namespace_of(each) == "default":
                await client.apply(each, field_manager="test", force=True, dry_run=True)
