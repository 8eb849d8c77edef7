"""create and its generators, patch, label, annotate, scale, set, delete."""

from __future__ import annotations

import pytest

from .conftest import gadget
from .runner import Kubectl


@pytest.mark.criterion("KC-CREATE")
def test_generators(kubectl: Kubectl) -> None:
    """Some of them send protobuf."""
    for arguments, created in (
        (("configmap", "c", "--from-literal=a=1"), "configmap/c"),
        (("secret", "generic", "s", "--from-literal=a=1"), "secret/s"),
        (("deployment", "d", "--image=nginx", "--replicas=0", "--port=80"), "deployment.apps/d"),
        (("service", "clusterip", "svc", "--tcp=80:8080"), "service/svc"),
        (("service", "nodeport", "np", "--tcp=80"), "service/np"),
        (("serviceaccount", "sa"), "serviceaccount/sa"),
        (("job", "j", "--image=busybox", "--", "true"), "job.batch/j"),
        (("role", "r", "--verb=get", "--resource=pods"), "role.rbac.authorization.k8s.io/r"),
        (
            ("rolebinding", "rb", "--role=r", "--user=bob"),
            "rolebinding.rbac.authorization.k8s.io/rb",
        ),
        (("quota", "q", "--hard=pods=3,limits.cpu=2"), "resourcequota/q"),
        (("ingress", "i", "--rule=example.com/=svc:80"), "ingress.networking.k8s.io/i"),
    ):
        assert kubectl("create", *arguments) == f"{created} created\n"
    deployment = kubectl.json("get", "deploy", "d")
    assert deployment["spec"]["replicas"] == 0
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "MQ=="
    assert kubectl("get", "svc", "svc", "-o", "jsonpath={.spec.ports[0].targetPort}") == "8080"
    assert kubectl("get", "quota", "q", "-o", "jsonpath={.spec.hard.limits\\.cpu}") == "2"
    (rule,) = kubectl.json("get", "ingress", "i")["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"]["name"] == "svc"


def test_generators_of_current_kinds(kubectl: Kubectl) -> None:
    kubectl("create", "cronjob", "cj", "--image=busybox", "--schedule=@daily", "--", "true")
    assert kubectl("create", "job", "j", "--from=cronjob/cj") == "job.batch/j created\n"
    owner = kubectl.json("get", "job", "j")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["controller"]) == ("CronJob", True)
    created = kubectl("create", "pdb", "p", "--selector=a=b", "--min-available=50%")
    assert created == "poddisruptionbudget.policy/p created\n"
    assert kubectl.table("get", "pdb")[1][:3] == ["p", "50%", "N/A"]


def test_run_and_expose(kubectl: Kubectl) -> None:
    assert kubectl("run", "p", "--image=nginx", "--port=80") == "pod/p created\n"
    kubectl("create", "deployment", "d", "--image=nginx", "--replicas=0")
    exposed = kubectl("expose", "deployment", "d", "--port=80", "--target-port=8080")
    assert exposed == "service/d exposed\n"
    assert kubectl("get", "svc", "d", "-o", "jsonpath={.spec.selector.app}") == "d"
    scaled = kubectl("autoscale", "deployment", "d", "--max=3", "--cpu-percent=70")
    assert scaled == "horizontalpodautoscaler.autoscaling/d autoscaled\n"
    assert kubectl.table("get", "hpa")[1][1:5] == ["Deployment/d", "cpu: <unknown>/70%", "1", "3"]


def test_create_from_a_file_twice(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("create", "-f", "-", stdin=gadget(gadgets))
    again = kubectl.run("create", "-f", "-", stdin=gadget(gadgets))
    assert again.code == 1
    assert "(AlreadyExists)" in again.err
    dry = kubectl("create", "configmap", "c", "--dry-run=server")
    assert dry == "configmap/c created (server dry run)\n"
    assert "kind: ConfigMap" in kubectl("create", "cm", "c", "--dry-run=client", "-o", "yaml")


def test_replace(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("create", "-f", "-", stdin=gadget(gadgets))
    replaced = kubectl("replace", "-f", "-", stdin=gadget(gadgets, size=5))
    assert replaced == f"gadget.{gadgets}/one replaced\n"
    assert kubectl("get", "gdg", "one", "-o", "jsonpath={.spec.size}") == "5"


@pytest.mark.criterion("KC-PATCH")
def test_patches_of_every_type(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("create", "deployment", "d", "--image=nginx", "--replicas=0")
    strategic = '{"spec":{"template":{"spec":{"containers":[{"name":"more","image":"m"}]}}}}'
    assert kubectl("patch", "deploy", "d", "-p", strategic) == "deployment.apps/d patched\n"
    names = kubectl("get", "deploy", "d", "-o", "jsonpath={..containers[*].name}")
    assert sorted(names.split()) == ["more", "nginx"]
    kubectl("patch", "deploy", "d", "--type=merge", "-p", '{"metadata":{"labels":{"x":"y"}}}')
    path = '[{"op":"replace","path":"/spec/revisionHistoryLimit","value":3}]'
    kubectl("patch", "deploy", "d", "--type=json", "-p", path)
    found = kubectl.json("get", "deploy", "d")
    assert found["metadata"]["labels"]["x"] == "y"
    assert found["spec"]["revisionHistoryLimit"] == 3
    again = kubectl("patch", "deploy", "d", "--type=json", "-p", path)
    assert again == "deployment.apps/d patched (no change)\n"
    kubectl("create", "-f", "-", stdin=gadget(gadgets))
    kubectl("patch", "gadget", "one", "--type=merge", "-p", '{"spec":{"size":6}}')
    refused = kubectl.run("patch", "gadget", "one", "-p", '{"spec":{"size":6}}')
    assert refused.code == 1
    assert "application/merge-patch+json" in refused.err


def test_patch_of_the_status(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("create", "-f", "-", stdin=gadget(gadgets))
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "gadget", "one", "--subresource=status", "--type=merge", "-p", ready)
    assert kubectl.table("get", "gadget", "one")[1][1:3] == ["2", "True"]
    status = kubectl("get", "gdg", "one", "--subresource=status", "-o", "jsonpath={.status}")
    assert "Ready" in status
    assert kubectl("wait", "--for=condition=Ready", "gadget/one", "--timeout=60s").endswith("met\n")


def test_labels_and_annotations(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "c")
    assert kubectl("label", "cm", "c", "a=1") == "configmap/c labeled\n"
    refused = kubectl.run("label", "cm", "c", "a=2")
    assert refused.code == 1
    kubectl("label", "cm", "c", "a=2", "--overwrite")
    kubectl("annotate", "cm", "c", "note=x")
    kubectl("label", "cm", "c", "a-")
    metadata = kubectl.json("get", "cm", "c")["metadata"]
    assert "labels" not in metadata
    assert metadata["annotations"]["note"] == "x"
    invalid = kubectl.run("label", "cm", "c", "a=not valid")
    assert invalid.code == 1


def test_scale_and_set_image(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "d", "--image=nginx:1", "--replicas=0")
    assert kubectl("scale", "deployment", "d", "--replicas=1") == "deployment.apps/d scaled\n"
    refused = kubectl.run("scale", "deploy", "d", "--replicas=2", "--current-replicas=5")
    assert refused.code == 1
    kubectl("scale", "deploy", "d", "--replicas=0", "--current-replicas=1")
    updated = kubectl("set", "image", "deployment/d", "nginx=nginx:2")
    assert updated == "deployment.apps/d image updated\n"
    assert kubectl("get", "deploy", "d", "-o", "jsonpath={..image}") == "nginx:2"
    kubectl("set", "resources", "deployment/d", "--limits=cpu=200m")
    assert kubectl("get", "deploy", "d", "-o", "jsonpath={..limits.cpu}") == "200m"


@pytest.mark.criterion("KC-DELETE")
def test_delete_by_name_selector_and_all(kubectl: Kubectl, gadgets: str) -> None:
    for name in ("a", "b", "c"):
        kubectl("create", "configmap", name)
    kubectl("label", "configmap", "b", "x=y")
    assert kubectl("delete", "configmap", "a") == 'configmap "a" deleted\n'
    assert 'configmap "b" deleted' in kubectl("delete", "cm", "-l", "x=y")
    kubectl("delete", "cm", "--all")
    assert kubectl("get", "cm", "c", "--ignore-not-found") == ""
    missing = kubectl.run("delete", "configmap", "a")
    assert missing.code == 1
    assert "(NotFound)" in missing.err
    assert kubectl.run("delete", "configmap", "a", "--ignore-not-found").code == 0
    kubectl("create", "-f", "-", stdin=gadget(gadgets))
    assert f'gadget.{gadgets} "one" deleted' in kubectl("delete", "-f", "-", stdin=gadget(gadgets))


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_dependents(kubectl: Kubectl, cascade: str) -> None:
    kubectl("create", "deployment", "d", "--image=nginx")
    kubectl("rollout", "status", "deployment/d", "--timeout=60s")
    sets = kubectl("get", "rs", "-l", "app=d", "-o", "name").strip()
    kubectl("delete", "deployment", "d", f"--cascade={cascade}")
    if cascade == "orphan":
        assert not kubectl.json("get", sets)["metadata"].get("ownerReferences")
        return
    if cascade == "background":
        kubectl.run("wait", "--for=delete", sets, "--timeout=60s")
    assert kubectl("get", "rs", "-l", "app=d", "-o", "name") == ""


def test_delete_at_once(kubectl: Kubectl) -> None:
    kubectl("run", "p", "--image=nginx")
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
    assert 'pod "p" deleted' in kubectl("delete", "pod", "p", "--now")
    kubectl("run", "q", "--image=nginx")
    forced = kubectl.run("delete", "pod", "q", "--force", "--grace-period=0")
    assert forced.code == 0
