"""Accounts by system: each Deployment has the rights of its system, a Lease and webhooks of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from manager.manifests.folders import SYSTEMS
from manager.options import LEADER_ELECTION_ID, LEASES, mutating_name
from tests.manifests.account_powers import of_account, rights_of, roles_and_bindings
from tests.manifests.installation import NAMESPACE, Manifest, installer, kustomized
from tests.manifests.test_chart import ONE, Rendered, chart, helm, rendered

pytestmark = [pytest.mark.criterion("S-A2"), pytest.mark.xdist_group("manifests")]

__all__ = ["chart", "helm", "rendered"]
BY_SYSTEM: dict[str, Any] = {"webhooks": {"enabled": True}}


def arguments(deployment: Manifest) -> dict[str, str]:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {name: value for name, _, value in (arg.partition("=") for arg in container["args"])}


def deployments(objects: list[Manifest]) -> dict[str, Manifest]:
    found = [each for each in objects if each["kind"] == "Deployment"]
    return {arguments(each)["--system"]: each for each in found}


def selects(selector: dict[str, str], deployment: Manifest) -> bool:
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return selector.items() <= labels.items()


def test_every_account_has_the_rights_of_its_system_alone() -> None:
    whole = kustomized("by-system")
    found = deployments(whole)
    assert found.keys() == SYSTEMS.keys()
    accounts = {e["metadata"]["name"] for e in whole if e["kind"] == "ServiceAccount"}
    for system, deployment in found.items():
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        assert account == f"ctrlruntime-{system}-controller-manager"
        accounts.remove(account)
        own = rights_of(of_account(whole, account))
        alone = rights_of(roles_and_bindings(kustomized(f"only-{system}")))
        assert own == alone
        assert not {r for r in own.any if f".{_other(system)}." in r.resource}
    assert accounts == set()


def _other(system: str) -> str:
    return next(name for name in SYSTEMS if name != system) + ".ctrlruntime"


def test_managers_of_different_systems_do_not_wait_for_each_others_lease() -> None:
    leases = {}
    whole = kustomized("by-system")
    for system, deployment in deployments(whole).items():
        leases[system] = arguments(deployment)["--leader-election-id"]
        role = f"ctrlruntime-{system}-leader-election-role"
        (rules,) = (
            e["rules"] for e in whole if (e["kind"], e["metadata"]["name"]) == ("Role", role)
        )
        assert arguments(deployment)["--leader-election-shared-id"] == LEADER_ELECTION_ID
        (named,) = (r["resourceNames"] for r in rules if "resourceNames" in r)
        assert {*named} == {leases[system], LEADER_ELECTION_ID}
    assert len({*leases.values()}) == len(SYSTEMS)
    assert {*leases.values()} < {*LEASES}, "an uninstallation has to wait for it"


def test_policies_and_metrics_select_the_pods_of_all_systems(rendered: Rendered) -> None:
    by_chart = rendered({**BY_SYSTEM, "networkPolicy": {"enabled": True}})
    by_kustomize = [*kustomized("by-system"), *kustomized("network-policy")]
    for objects in (by_chart, by_kustomize):
        found = deployments(objects)
        selectors = [
            each["spec"]["podSelector"]["matchLabels"]
            for each in objects
            if each["kind"] == "NetworkPolicy"
        ]
        assert len(selectors) == 3
        (metrics,) = (e for e in objects if e["metadata"]["name"].endswith("metrics-service"))
        for selector in [*selectors, metrics["spec"]["selector"]]:
            assert all(selects(selector, each) for each in found.values())
        owned = [each["spec"]["selector"]["matchLabels"] for each in found.values()]
        for selector in owned:  # two Deployments that select each other's Pods would fight
            assert [selects(selector, each) for each in found.values()].count(True) == 1


@pytest.mark.parametrize("way", ["chart", "install.yaml"])
def test_webhooks_call_the_pods_that_serve_them(way: str, rendered: Rendered) -> None:
    objects = rendered(BY_SYSTEM) if way == "chart" else installer()
    named = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    found = deployments(objects)
    called = set()
    for system in ("tenancy", "cloud", "cosmos"):
        given = arguments(found[system])
        configuration = given["--webhook-configuration"]
        for webhook in [
            *named["ValidatingWebhookConfiguration", configuration].get("webhooks", ()),
            *named["MutatingWebhookConfiguration", mutating_name(configuration)]["webhooks"],
        ]:
            called.add(webhook["name"])
            assert webhook["rules"][0]["apiGroups"] == [f"{system}.ctrlruntime.dev"]
            target = webhook["clientConfig"]["service"]
            assert (target["name"], target["namespace"]) == (
                given["--webhook-service-name"],
                NAMESPACE,
            )
            selector = named["Service", target["name"]]["spec"]["selector"]
            assert [name for name, each in found.items() if selects(selector, each)] == [system]
        rights = [
            named[kind, f"ctrlruntime-{system}-webhook-role"] for kind in ("ClusterRole", "Role")
        ]
        names = [rule.get("resourceNames") for role in rights for rule in role["rules"]]
        assert [configuration] in names
        assert [mutating_name(configuration)] in names
        assert [given["--webhook-secret-name"]] in names
    every = [each for each in kustomized("with-webhooks") if "webhooks" in each]
    assert called == {webhook["name"] for each in every for webhook in each["webhooks"] or ()}


def test_only_what_is_switched_on_has_a_deployment_and_an_account(rendered: Rendered) -> None:
    objects = rendered(
        {
            **BY_SYSTEM,
            "systems": ["cosmos", "cloud"],
            "podDisruptionBudget": {"enabled": True},
            "args": ["--log-level=debug"],
            "perSystem": {
                "cloud": {
                    "args": ["--console-bind-address=127.0.0.1:8090"],
                    "resources": {"limits": {"memory": "2Gi"}},
                }
            },
        }
    )
    found = deployments(objects)
    assert found.keys() == {"cloud", "cosmos"}
    kinds = [each["kind"] for each in objects]
    for kind in ("ServiceAccount", "Deployment", "PodDisruptionBudget"):
        assert kinds.count(kind) == 2
    assert "tenancy" not in json.dumps([e for e in objects if e["kind"].endswith("Binding")])
    assert all("--log-level" in arguments(each) for each in found.values())
    of_cloud = [name for name, each in found.items() if "--console-bind-address" in arguments(each)]
    assert of_cloud == ["cloud"]
    memory = {
        name: each["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
        for name, each in found.items()
    }
    assert memory == {"cloud": "2Gi", "cosmos": "1Gi"}


@pytest.mark.parametrize("values", [{}, {"namespaces": ["shops"]}, {"systems": ["cloud"]}], ids=str)
def test_the_chart_gives_no_account_more_than_without(
    values: dict[str, Any], rendered: Rendered
) -> None:
    """What all accounts have together is what the one account had."""
    together, one = (
        rendered({**BY_SYSTEM, **values}),
        rendered({**ONE, **BY_SYSTEM, **values}),
    )
    assert rights_of(roles_and_bindings(together)).any == rights_of(roles_and_bindings(one)).any
    text = json.dumps([each for each in together if each["kind"].endswith("Binding")])
    assert '"ctrlruntime-controller-manager"' not in text
