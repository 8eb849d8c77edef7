"""What a new cluster has from the start."""

from __future__ import annotations

from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.clock import new_uid
from ctrlruntime.envtest.server.state import State

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")


def bootstrap(state: State) -> None:
    """Namespaces, the `kubernetes` Service and the cluster roles that RBAC itself needs."""
    if len(state.storage.bucket("namespaces")):
        return
    if state.options.snapshot is not None:
        state.restore(state.options.snapshot)
        return
    for name in NAMESPACES:
        namespace: Manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }
        put(state, "namespaces", namespace)
    for role in _cluster_roles():
        put(state, "clusterroles.rbac.authorization.k8s.io", role)
    for binding in _cluster_role_bindings():
        put(state, "clusterrolebindings.rbac.authorization.k8s.io", binding)


def put(state: State, resource: str, obj: Manifest) -> None:
    """Store an object of the server's own making, complete but for its system fields."""
    metadata = obj["metadata"]
    obj = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], **obj}
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = state.now()
    state.storage.create(state.storage.bucket(resource), obj)


def _role(name: str, *rules: Manifest, **more: Manifest) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **more.get("labels", {})},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
        "rules": list(rules),
        **{key: value for key, value in more.items() if key != "labels"},
    }


def _rule(groups: str, resources: str, verbs: str) -> Manifest:
    return {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }


_EDIT: Final = "create delete deletecollection patch update"
_VIEW: Final = "get list watch"
_NAMESPACED: Final = (
    ("core", "configmaps endpoints persistentvolumeclaims pods replicationcontrollers services"),
    ("core", "events serviceaccounts secrets"),
    ("apps", "controllerrevisions daemonsets deployments replicasets statefulsets"),
    ("apps", "deployments/scale replicasets/scale statefulsets/scale"),
    ("batch", "cronjobs jobs"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("networking.k8s.io", "ingresses networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("discovery.k8s.io", "endpointslices"),
    ("coordination.k8s.io", "leases"),
)


def _aggregated(name: str) -> Manifest:
    selector = {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}
    return {"clusterRoleSelectors": [{"matchLabels": selector}]}


def _cluster_roles() -> list[Manifest]:
    view = [_rule(g, r.replace(" secrets", ""), _VIEW) for g, r in _NAMESPACED]
    edit = [_rule(g, r, f"{_VIEW} {_EDIT}") for g, r in _NAMESPACED]
    rbac = _rule("rbac.authorization.k8s.io", "roles rolebindings", f"{_VIEW} {_EDIT}")
    paths = (
        "/healthz /livez /readyz /version /version/ /api /api/* /apis /apis/* /openapi /openapi/*"
    )
    public: Manifest = {
        "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
        "verbs": ["get"],
    }
    everything: Manifest = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    discovery: Manifest = {"nonResourceURLs": paths.split(), "verbs": ["get"]}
    reviews = _rule(
        "authorization.k8s.io",
        "selfsubjectaccessreviews selfsubjectrulesreviews",
        "create",
    )
    own = _rule("authentication.k8s.io", "selfsubjectreviews", "create")
    to = "rbac.authorization.k8s.io/aggregate-to-"
    return [
        _role("cluster-admin", _rule("*", "*", "*"), everything),
        _role("system:discovery", discovery),
        _role("system:public-info-viewer", public),
        _role("system:basic-user", reviews, own),
        _role("system:aggregate-to-view", *view, labels={f"{to}view": "true"}),
        _role("system:aggregate-to-edit", *edit, labels={f"{to}edit": "true"}),
        _role("system:aggregate-to-admin", rbac, labels={f"{to}admin": "true"}),
        _role("view", aggregationRule=_aggregated("view"), labels={f"{to}edit": "true"}),
        _role("edit", aggregationRule=_aggregated("edit"), labels={f"{to}admin": "true"}),
        _role("admin", aggregationRule=_aggregated("admin")),
    ]


def _cluster_role_bindings() -> list[Manifest]:
    bound = (
        ("cluster-admin", "system:masters"),
        ("system:discovery", "system:authenticated"),
        ("system:basic-user", "system:authenticated"),
        ("system:public-info-viewer", "system:authenticated", "system:unauthenticated"),
    )
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {
                "name": role,
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            },
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [
                {"apiGroup": group, "kind": "Group", "name": subject} for subject in subjects
            ],
        }
        for role, *subjects in bound
    ]
