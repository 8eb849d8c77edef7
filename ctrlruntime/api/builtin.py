"""The built-in kinds of a current Kubernetes, so that no discovery is needed for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .kinds import GroupVersionKind, RESTMapping

__all__ = ["BUILTIN"]

_NAMESPACED = """
v1                            Binding bindings
v1                            ConfigMap configmaps
v1                            Endpoints endpoints
v1                            Event events
v1                            LimitRange limitranges
v1                            PersistentVolumeClaim persistentvolumeclaims
v1                            Pod pods
v1                            PodTemplate podtemplates
v1                            ReplicationController replicationcontrollers
v1                            ResourceQuota resourcequotas
v1                            Secret secrets
v1                            Service services
v1                            ServiceAccount serviceaccounts
apps/v1                       ControllerRevision controllerrevisions
apps/v1                       DaemonSet daemonsets
apps/v1                       Deployment deployments
apps/v1                       ReplicaSet replicasets
apps/v1                       StatefulSet statefulsets
authorization.k8s.io/v1       LocalSubjectAccessReview localsubjectaccessreviews
autoscaling/v1                HorizontalPodAutoscaler horizontalpodautoscalers
autoscaling/v2                HorizontalPodAutoscaler horizontalpodautoscalers
batch/v1                      CronJob cronjobs
batch/v1                      Job jobs
coordination.k8s.io/v1        Lease leases
discovery.k8s.io/v1           EndpointSlice endpointslices
events.k8s.io/v1              Event events
networking.k8s.io/v1          Ingress ingresses
networking.k8s.io/v1          NetworkPolicy networkpolicies
policy/v1                     PodDisruptionBudget poddisruptionbudgets
rbac.authorization.k8s.io/v1  Role roles
rbac.authorization.k8s.io/v1  RoleBinding rolebindings
storage.k8s.io/v1             CSIStorageCapacity csistoragecapacities
"""

_CLUSTER = """
v1                               ComponentStatus componentstatuses
v1                               Namespace namespaces
v1                               Node nodes
v1                               PersistentVolume persistentvolumes
admissionregistration.k8s.io/v1  MutatingWebhookConfiguration mutatingwebhookconfigurations
admissionregistration.k8s.io/v1  ValidatingAdmissionPolicy validatingadmissionpolicies
admissionregistration.k8s.io/v1  ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings
admissionregistration.k8s.io/v1  ValidatingWebhookConfiguration validatingwebhookconfigurations
apiextensions.k8s.io/v1          CustomResourceDefinition customresourcedefinitions
apiregistration.k8s.io/v1        APIService apiservices
authentication.k8s.io/v1         SelfSubjectReview selfsubjectreviews
authentication.k8s.io/v1         TokenReview tokenreviews
authorization.k8s.io/v1          SelfSubjectAccessReview selfsubjectaccessreviews
authorization.k8s.io/v1          SelfSubjectRulesReview selfsubjectrulesreviews
authorization.k8s.io/v1          SubjectAccessReview subjectaccessreviews
certificates.k8s.io/v1           CertificateSigningRequest certificatesigningrequests
flowcontrol.apiserver.k8s.io/v1  FlowSchema flowschemas
flowcontrol.apiserver.k8s.io/v1  PriorityLevelConfiguration prioritylevelconfigurations
networking.k8s.io/v1             IngressClass ingressclasses
networking.k8s.io/v1             IPAddress ipaddresses
networking.k8s.io/v1             ServiceCIDR servicecidrs
node.k8s.io/v1                   RuntimeClass runtimeclasses
rbac.authorization.k8s.io/v1     ClusterRole clusterroles
rbac.authorization.k8s.io/v1     ClusterRoleBinding clusterrolebindings
scheduling.k8s.io/v1             PriorityClass priorityclasses
storage.k8s.io/v1                CSIDriver csidrivers
storage.k8s.io/v1                CSINode csinodes
storage.k8s.io/v1                StorageClass storageclasses
storage.k8s.io/v1                VolumeAttachment volumeattachments
storage.k8s.io/v1                VolumeAttributesClass volumeattributesclasses
"""


def _table() -> Mapping[GroupVersionKind, RESTMapping]:
    mappings: dict[GroupVersionKind, RESTMapping] = {}
    for text, namespaced in ((_NAMESPACED, True), (_CLUSTER, False)):
        for line in text.split("\n"):
            if line:
                api_version, kind, plural = line.split()
                gvk = GroupVersionKind.parse(api_version, kind)
                mappings[gvk] = RESTMapping(gvk, plural, namespaced)
    return MappingProxyType(mappings)


BUILTIN: Mapping[GroupVersionKind, RESTMapping] = _table()
"""REST mappings of the built-in kinds, by kind."""
