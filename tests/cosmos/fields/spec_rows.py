"""The reference's tables A1.1 and A1.2: a set of nodes, and its Pods."""

from __future__ import annotations

from typing import Final

from .effects import (
    account,
    grown_size,
    kept_disks,
    pods_and_claims,
    pods_that_may_go,
    probed_containers,
    restarted_nodes,
    signer_parts,
    team_and_note,
)
from .objects import claim, config, init, names, node, pod, service
from .row import Row

BOTH: Final = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
SIDE: Final = {"name": "side", "containers": [{"name": "main", "image": "side:v1"}]}
OWN_DISK: Final = {"storageClassName": "own", "resources": {"requests": {"storage": "1Ti"}}}
SCALE: Final = {"usedSpacePercentage": 80, "increaseQuantity": "50%"}
P2P, RPC = "test-p2p-0", "test-rpc"
PODS, CLAIMS = ["test-0", "test-1"], ["pvc-test-0", "pvc-test-1"]
HOSTNAME: Final = "kubernetes.io/hostname"
PREFERRED: Final = "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution.0"
ENUM_TYPE: Final = {"pattern": "^(ClusterIP|NodePort|LoadBalancer)$"}
POLICY: Final = {"pattern": "^(Cluster|Local)$"}
NO_EXTERNAL_NAME: Final = (
    "ExternalName is no value: such a Service needs an externalName, which the reference has no field for, so that "
    "the API server refused each of them."
)
LABELS: Final = (
    "Labels that objects are found by (name, instance, component, created-by) cannot be overridden: "
    "an object without them would be lost."
)


def _side(**fields: object) -> dict[str, object]:
    return {"additionalVersionedPods": [{**SIDE, **fields}]}


def _service(template: str, **fields: object) -> dict[str, object]:
    return {"service": {template: fields}}


def _override(**fields: object) -> dict[str, object]:
    return {"instanceOverrides": {"test-1": fields}}


def _service_rows(
    template: str, name: str, usual_type: str, usual_policy: str | None
) -> tuple[Row, ...]:
    """The rows of both templates are the same but for what is usual."""
    field = f"service.{template}"
    return (
        Row(
            "A1.1",
            f"{field}.metadata",
            team_and_note("Service", name),
            _service(template, metadata=BOTH),
            ["a", "b"],
            [None, None],
            differs=LABELS,
            name="metadata",
        ),
        Row(
            "A1.1",
            f"{field}.type",
            service(name, "spec.type"),
            _service(template, type="NodePort"),
            "NodePort",
            usual_type,
            rules=ENUM_TYPE,
            differs=NO_EXTERNAL_NAME,
            name="type: ExternalName",
        ),
        Row(
            "A1.1",
            f"{field}.clusterIP",
            service(name, "spec.clusterIP"),
            _service(template, clusterIP="None"),
            "None",
        ),
        Row(
            "A1.1",
            f"{field}.ports",
            service(name, "spec.ports.more.port"),
            _service(template, ports=[{"name": "more", "port": 7}]),
            7,
        ),
        Row(
            "A1.1",
            f"{field}.externalTrafficPolicy",
            service(name, "spec.externalTrafficPolicy"),
            _service(template, type="LoadBalancer", externalTrafficPolicy="Cluster"),
            "Cluster",
            usual_policy,
            rules=POLICY,
        ),
    )


NODE_SET: Final = (
    Row("A1.1", "replicas", names("Pod"), {"replicas": 3}, ["test-0", "test-1", "test-2"], PODS,
        rules={"minimum": 0, "maximum": 200}, required=True,
        differs="At most 200: each node has every other one in its configuration."),
    Row("A1.1", "ordinals.start", names("Pod"), {"ordinals": {"start": 5}}, ["test-5", "test-6"], PODS,
        rules={"default": 0, "minimum": 0}),
    Row("A1.1", "type", signer_parts, {"type": "Sentry"},
        [["test-privval-0", "test-privval-1"], "tcp://0.0.0.0:1234", "null", True],
        [[], None, None, False], rules={"default": "FullNode", "enum": ["FullNode", "Sentry"]}),
    Row("A1.1", "additionalVersionedPods[].name", names("Pod"), _side(),
        [*PODS, "side-0", "side-1"], PODS, rules={"maxLength": 253}, required=True),
    Row("A1.1", "additionalVersionedPods[].metadata", team_and_note("Pod", "side-0"),
        _side(metadata=BOTH), ["a", "b"], [None, None], differs=LABELS),
    Row("A1.1", "additionalVersionedPods[].containers", pod("spec.containers.main.image", "side-1"),
        _side(), "side:v1"),
    Row("A1.1", "additionalVersionedPods[].preferSameNode",
        pod(f"{PREFERRED}.podAffinityTerm", "side-1"), _side(preferSameNode=True),
        {"labelSelector": {"matchLabels": {"app.kubernetes.io/instance": "test-1"}},
         "topologyKey": HOSTNAME}, rules={"default": False}),
    Row("A1.1", "strategy.maxUnavailable", pods_that_may_go, {"strategy": {"maxUnavailable": 3}}, 3, 2,
        rules={"minimum": 0}),
    Row("A1.1", "volumeRetentionPolicy", kept_disks, {"volumeRetentionPolicy": "Delete"},
        [False, False], [False, True], rules={"enum": ["Retain", "Delete"]},
        differs="No default: disks of nodes that are gone are deleted, but all stay while `replicas` is 0."),
    Row("A1.1", "service.maxP2PExternalAddresses", service("test-p2p-1", "spec.type"),
        {"service": {"maxP2PExternalAddresses": 2}}, "LoadBalancer", "ClusterIP",
        rules={"default": 1, "minimum": 0}),
    *_service_rows("p2pTemplate", P2P, "LoadBalancer", "Local"),
    *_service_rows("rpcTemplate", RPC, "ClusterIP", None),
    Row("A1.1", "service.clusterDomain",
        lambda given: "svc.example.internal:" in config("p2p.persistent_peers")(given),
        {"service": {"clusterDomain": "example.internal"}}, True, False,
        rules={"default": "cluster.local"}),
    Row("A1.1", "instanceOverrides{}.disable", pods_and_claims, _override(disable="All"),
        [["test-0"], ["pvc-test-0"]], [PODS, CLAIMS], rules={"enum": ["Pod", "All"]}),
    Row("A1.1", "instanceOverrides{}.volumeClaimTemplate", claim("spec.storageClassName", "pvc-test-1"),
        _override(volumeClaimTemplate=OWN_DISK), "own", "standard"),
    Row("A1.1", "instanceOverrides{}.image", pod("spec.containers.node.image", "test-1"),
        _override(image="own:v9"), "own:v9", "registry.example.com/chain:v1"),
    Row("A1.1", "instanceOverrides{}.externalAddress", config("p2p.external_address", name="test-1"),
        _override(externalAddress="192.0.2.7:1"), "192.0.2.7:1"),
    Row("A1.1", "instanceOverrides{}.nodeSelector", pod("spec.nodeSelector", "test-1"),
        _override(nodeSelector={"disk": "fast"}), {"disk": "fast"}),
    Row("A1.1", "selfHeal.pvcAutoScale.usedSpacePercentage", grown_size,
        {"selfHeal": {"pvcAutoScale": {**SCALE, "usedSpacePercentage": 90}}}, "150Gi",
        rules={"minimum": 1, "maximum": 100}, required=True,
        differs="At most 100, which the reference means and its schema lets pass."),
    Row("A1.1", "selfHeal.pvcAutoScale.increaseQuantity", grown_size,
        {"selfHeal": {"pvcAutoScale": {**SCALE, "increaseQuantity": "20Gi"}}}, "120Gi", required=True,
        differs="A text that is neither a percentage nor an amount is refused when it is written."),
    Row("A1.1", "selfHeal.pvcAutoScale.maxSize", grown_size,
        {"selfHeal": {"pvcAutoScale": {**SCALE, "maxSize": "110Gi"}}}, "110Gi",
        differs="It holds for the 2 % that are added for the file system, too, and is requested once."),
    Row("A1.1", "selfHeal.heightDriftMitigation.threshold", restarted_nodes,
        {"selfHeal": {"heightDriftMitigation": {"threshold": 10}}}, ["test-2"], [],
        rules={"minimum": 1}, required=True,
        differs="Compared with the second highest of the others: one node may report a wrong height."),
    Row("A1.1", "serviceAccountName", account, {"serviceAccountName": "own"}, ["own", []],
        ["test-vc-sa", ["test-vc-sa", "test-vc-r", "test-vc-rb"]]),
)  # fmt: skip

POD: Final = (
    Row("A1.2", "podTemplate.metadata", team_and_note("Pod", "test-0"), {"podTemplate__metadata": BOTH},
        ["a", "b"], [None, None], differs=LABELS),
    Row("A1.2", "podTemplate.image", node("image"), {"podTemplate__image": "own:v2"}, "own:v2",
        "registry.example.com/chain:v1", rules={"pattern": r"^\S+$"}),
    Row("A1.2", "podTemplate.imagePullPolicy", node("imagePullPolicy"),
        {"podTemplate__imagePullPolicy": "Always"}, "Always",
        rules={"pattern": "^(Always|Never|IfNotPresent)$"}),
    Row("A1.2", "podTemplate.imagePullSecrets", pod("spec.imagePullSecrets"),
        {"podTemplate__imagePullSecrets": [{"name": "pull"}]}, [{"name": "pull"}]),
    Row("A1.2", "podTemplate.nodeSelector", pod("spec.nodeSelector"),
        {"podTemplate__nodeSelector": {"disk": "fast"}}, {"disk": "fast"}),
    Row("A1.2", "podTemplate.affinity", pod("spec.affinity"),
        {"podTemplate__affinity": {"podAntiAffinity": {}}}, {"podAntiAffinity": {}}),
    Row("A1.2", "podTemplate.tolerations", pod("spec.tolerations"),
        {"podTemplate__tolerations": [{"operator": "Exists"}]}, [{"operator": "Exists"}]),
    Row("A1.2", "podTemplate.priorityClassName", pod("spec.priorityClassName"),
        {"podTemplate__priorityClassName": "high"}, "high"),
    Row("A1.2", "podTemplate.priority", pod("spec.priority"), {"podTemplate__priority": 0}, 0),
    Row("A1.2", "podTemplate.resources", node("resources.limits.cpu"),
        {"podTemplate__resources": {"limits": {"cpu": "2"}}}, "2"),
    Row("A1.2", "podTemplate.terminationGracePeriodSeconds", pod("spec.terminationGracePeriodSeconds"),
        {"podTemplate__terminationGracePeriodSeconds": 0}, 0, 30, rules={"minimum": 0}),
    Row("A1.2", "podTemplate.probes.strategy", probed_containers,
        {"podTemplate__probes": {"strategy": "Reachable"}}, ["node"], ["node", "healthcheck"],
        rules={"enum": ["None", "Reachable", "InSync"]},
        differs="Without a strategy sentries have no probe: see Sentries."),
    Row("A1.2", "podTemplate.volumes", pod("spec.volumes.more.emptyDir"),
        {"podTemplate__volumes": [{"name": "more", "emptyDir": {"medium": "Memory"}}]},
        {"medium": "Memory"}),
    Row("A1.2", "podTemplate.initContainers", init("clean-init", "image"),
        {"podTemplate__initContainers": [{"name": "clean-init", "image": "own:v3"}]}, "own:v3",
        "registry.example.com/sidecar:v1"),
    Row("A1.2", "podTemplate.containers", node("tty"),
        {"podTemplate__containers": [{"name": "node", "tty": True}]}, True),
)  # fmt: skip
