"""Over a built-in kind, and one whose CRD comes after the policy that names it."""

import pytest
from policies import FINALIZER, LABEL, Policy, Rule, problems, setup

from ctrlruntime import ApiModel, GroupVersionKind, NoStatus, Resource
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.eventually import eventually, eventually_gone, eventually_holds

DEPLOYMENT = "apps/v1/Deployment"
LABELLED = f"{LABEL}/owned"


class LateSpec(ApiModel):
    size: int | None = None


class Late(Resource[LateSpec, NoStatus], group="late.example.com", version="v1"):
    """A kind that the operator has no class of."""


def policy(namespace, name, kind, *rules):
    metadata = {"name": name, "namespace": namespace}
    return Policy.from_manifest({"metadata": metadata, "spec": {"kind": kind, "rules": rules}})


def deployment(namespace, name, **labels):
    pod = {"containers": [{"name": "a", "image": "a"}]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def found(*names, checked):
    """What a status is expected to have; nothing found is no field."""
    violations = {"violations": [{"name": name} for name in names]} if names else {}
    return {"status": {"checked": checked, "violating": len(names), **violations}}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"path": "metadata.labels.team"}, "metadata.labels.team is not set"),
        ({"path": "spec.list.image", "allowed": ["a"]}, "spec.list.image is b, not one of a"),
        ({"path": "spec.list.tag"}, "spec.list.tag is not set"),
        ({"path": "spec.count", "allowed": ["3"]}, ""),
    ],
)
def test_a_rule_finds_what_is_missing_in_each_item(rule, text):
    spec = {"count": 3, "list": [{"image": "a", "tag": "x"}, {"image": "b"}]}
    broken = problems([Rule.model_validate(rule)], {"metadata": {}, "spec": spec})
    assert broken == ([text] if text else [])


async def test_violations_are_reported_and_labelled_until_the_policy_goes(
    run_manager, envtest_client, namespace
):
    manager = await run_manager(setup, Policy)
    client = envtest_client
    await client.create(deployment(namespace, "good", team="shop"))
    await client.create(deployment(namespace, "bad"))
    await client.create(policy(namespace, "owned", DEPLOYMENT, {"path": "metadata.labels.team"}))
    await eventually(client, Policy, "owned", found("bad", checked=2), namespace=namespace)
    await eventually(
        client, DEPLOYMENT, "bad", {"metadata": {"labels": {LABELLED: "true"}}}, namespace=namespace
    )

    await client.patch(
        DEPLOYMENT, "bad", {"metadata": {"labels": {"team": "pay"}}}, namespace=namespace
    )
    await client.create(deployment(namespace, "worse"))
    await eventually(client, Policy, "owned", found("worse", checked=3), namespace=namespace)
    mended = await client.get(DEPLOYMENT, "bad", namespace=namespace)
    assert LABELLED not in mended["metadata"]["labels"]

    await client.create(policy(namespace, "second", DEPLOYMENT, {"path": "spec.replicas"}))
    await eventually(client, Policy, "second", found(checked=3), namespace=namespace)
    assert watched(manager) == {"Policy", "Deployment"}
    await client.delete(Policy, "second", namespace=namespace)
    await eventually_gone(client, Policy, "second", namespace=namespace)
    assert watched(manager) == {"Policy", "Deployment"}  # another policy needs it still

    assert FINALIZER in (await client.get(Policy, "owned", namespace=namespace)).metadata.finalizers
    await client.delete(Policy, "owned", namespace=namespace)
    await eventually_gone(client, Policy, "owned", namespace=namespace)
    cleared = await client.get(DEPLOYMENT, "worse", namespace=namespace)
    assert LABELLED not in cleared["metadata"].get("labels", {})
    await eventually_holds(lambda: watched(manager) == {"Policy"})


async def test_a_kind_is_waited_for_and_a_text_that_names_none_is_shown(
    run_manager, envtest_client, namespace
):
    manager = await run_manager(setup, Policy)
    client = envtest_client
    await client.create(policy(namespace, "typo", "Deployment", {"path": "spec"}))
    invalid = {"status": {"conditions": [{"type": "Ready", "reason": "Invalid"}]}}
    seen = await eventually(client, Policy, "typo", invalid, namespace=namespace)
    assert "apps/v1/Deployment" in seen.status.conditions[0].message

    await client.create(
        policy(namespace, "late", "late.example.com/v1/Late", {"path": "spec.size"})
    )
    waits = {"status": {"conditions": [{"type": "Ready", "reason": "NotListed"}]}}
    await eventually(client, Policy, "late", waits, namespace=namespace)
    await install_crds(client, [Late])
    manager.cache.notify_discovery_changed()  # it looks by itself every ten seconds
    late = GroupVersionKind("late.example.com", "v1", "Late")
    for name, spec in (("with", {"size": 1}), ("without", {})):
        head = {"apiVersion": late.api_version, "kind": late.kind}
        metadata = {"name": name, "namespace": namespace}
        await client.create({**head, "metadata": metadata, "spec": spec})
    listed = await eventually(
        client, Policy, "late", found("without", checked=2), namespace=namespace
    )
    assert listed.status.conditions[0].reason == "Checked"


def watched(manager):
    return {each.gvk.kind for each in manager.cache.informers()}
