"""Fields of the Kubernetes messages that the server reads, with their numbers.

In the notation of `protobuf.messages`. `Entry` messages are those of maps; `Empty` stands for a
message that must have no field set, `Ignored` for a status: writers of a status send JSON.
"""

from __future__ import annotations

from typing import Final

_OBJECT: Final = "metadata:ObjectMeta=1"
_REVIEW: Final = f"{_OBJECT} spec:{{}}=2 status:Ignored=3"
_ACCESS: Final = (
    "resourceAttributes:ResourceAttributes=1 nonResourceAttributes:NonResourceAttributes=2"
)

_META: Final = {
    "TypeMeta": "apiVersion=1 kind=2",
    "Unknown": "typeMeta:TypeMeta=1 raw:bytes=2 contentEncoding=3 contentType=4",
    "Empty": "",
    "Ignored": "",
    "Time": "seconds:int64=1 nanos:int32=2",
    "IntOrString": "type:int64=1 intVal:int32=2 strVal=3",
    "Quantity": "string=1",
    "Entry": "key=1 value=2",
    "BytesEntry": "key=1 value:bytes=2",
    "QuantityEntry": "key=1 value:Quantity=2",
    "ObjectMeta": (
        "name=1 generateName=2 namespace=3 selfLink=4 uid=5 resourceVersion=6 generation:int64=7 "
        "creationTimestamp:Time=8 deletionTimestamp:Time=9 deletionGracePeriodSeconds:int64?=10 "
        "labels:Entry*=11 annotations:Entry*=12 ownerReferences:OwnerReference*=13 "
        "finalizers:string*=14"
    ),
    "OwnerReference": "kind=1 name=3 uid=4 apiVersion=5 controller:bool?=6 blockOwnerDeletion:bool?=7",
    "LabelSelector": "matchLabels:Entry*=1 matchExpressions:LabelSelectorRequirement*=2",
    "LabelSelectorRequirement": "key=1 operator=2 values:string*=3",
    "Preconditions": "uid?=1 resourceVersion?=2",
    "DeleteOptions": (
        "gracePeriodSeconds:int64?=1 preconditions:Preconditions=2 orphanDependents:bool?=3 "
        "propagationPolicy?=4 dryRun:string*=5"
    ),
    "LocalObjectReference": "name=1",
    "ObjectReference": (
        "kind=1 namespace=2 name=3 uid=4 apiVersion=5 resourceVersion=6 fieldPath=7"
    ),
}
_REVIEWS: Final = {
    "ResourceAttributes": "namespace=1 verb=2 group=3 version=4 resource=5 subresource=6 name=7",
    "NonResourceAttributes": "path=1 verb=2",
    "ExtraValue": "items:string*=1",
    "ExtraEntry": "key=1 value:ExtraValue=2",
    "SelfSubjectAccessReviewSpec": _ACCESS,
    "SubjectAccessReviewSpec": f"{_ACCESS} user=3 groups:string*=4 extra:ExtraEntry*=5 uid=6",
    "SelfSubjectRulesReviewSpec": "namespace=1",
    "TokenReviewSpec": "token=1 audiences:string*=2",
    "BoundObjectReference": "kind=1 apiVersion=2 name=3 uid=4",
    "TokenRequestSpec": (
        "audiences:string*=1 boundObjectRef:BoundObjectReference=3 expirationSeconds:int64?=4"
    ),
    "SelfSubjectAccessReview": _REVIEW.format("SelfSubjectAccessReviewSpec"),
    "SubjectAccessReview": _REVIEW.format("SubjectAccessReviewSpec"),
    "LocalSubjectAccessReview": _REVIEW.format("SubjectAccessReviewSpec"),
    "SelfSubjectRulesReview": _REVIEW.format("SelfSubjectRulesReviewSpec"),
    "TokenReview": _REVIEW.format("TokenReviewSpec"),
    "TokenRequest": _REVIEW.format("TokenRequestSpec"),
    "SelfSubjectReview": f"{_OBJECT} status:Ignored=2",
}
_CORE: Final = {
    "ConfigMap": f"{_OBJECT} data:Entry*=2 binaryData:BytesEntry*=3 immutable:bool?=4",
    "Secret": f"{_OBJECT} data:BytesEntry*=2 type=3 stringData:Entry*=4 immutable:bool?=5",
    "Namespace": f"{_OBJECT} spec:NamespaceSpec=2 status:Ignored=3",
    "NamespaceSpec": "finalizers:string*=1",
    "ServiceAccount": (
        f"{_OBJECT} secrets:ObjectReference*=2 imagePullSecrets:LocalObjectReference*=3 "
        "automountServiceAccountToken:bool?=4"
    ),
    "Service": f"{_OBJECT} spec:ServiceSpec=2 status:Ignored=3",
    "ServiceSpec": (
        "ports:ServicePort*=1 selector:Entry*=2 clusterIP=3 type=4 externalIPs:string*=5 "
        "sessionAffinity=7 loadBalancerIP=8 loadBalancerSourceRanges:string*=9 externalName=10 "
        "externalTrafficPolicy=11 healthCheckNodePort:int32=12 publishNotReadyAddresses:bool=13 "
        "ipFamilyPolicy?=17 clusterIPs:string*=18 ipFamilies:string*=19"
    ),
    "ServicePort": (
        "name=1 protocol=2 port:int32=3 targetPort:IntOrString=4 nodePort:int32=5 appProtocol?=6"
    ),
    "ResourceQuota": f"{_OBJECT} spec:ResourceQuotaSpec=2 status:Ignored=3",
    "ResourceQuotaSpec": "hard:QuantityEntry*=1 scopes:string*=2",
    "Eviction": f"{_OBJECT} deleteOptions:DeleteOptions=2",
}
_PODS: Final = {
    "PodTemplateSpec": f"{_OBJECT} spec:PodSpec=2",
    "PodSpec": (
        "containers:Container*=2 restartPolicy=3 terminationGracePeriodSeconds:int64?=4 "
        "activeDeadlineSeconds:int64?=5 dnsPolicy=6 nodeSelector:Entry*=7 serviceAccountName=8 "
        "serviceAccount=9 nodeName=10 hostNetwork:bool=11 hostPID:bool=12 hostIPC:bool=13 "
        "securityContext:Empty=14 imagePullSecrets:LocalObjectReference*=15 hostname=16 "
        "subdomain=17 schedulerName=19 initContainers:Container*=20 "
        "automountServiceAccountToken:bool?=21 priorityClassName=24 priority:int32?=25 "
        "enableServiceLinks:bool?=30"
    ),
    "Container": (
        "name=1 image=2 command:string*=3 args:string*=4 workingDir=5 ports:ContainerPort*=6 "
        "env:EnvVar*=7 resources:ResourceRequirements=8 terminationMessagePath=13 "
        "imagePullPolicy=14 stdin:bool=16 stdinOnce:bool=17 tty:bool=18 "
        "terminationMessagePolicy=20 restartPolicy?=24"
    ),
    "ContainerPort": "name=1 hostPort:int32=2 containerPort:int32=3 protocol=4 hostIP=5",
    "EnvVar": "name=1 value=2",
    "ResourceRequirements": "limits:QuantityEntry*=1 requests:QuantityEntry*=2",
    "Deployment": f"{_OBJECT} spec:DeploymentSpec=2 status:Ignored=3",
    "DeploymentSpec": (
        "replicas:int32?=1 selector:LabelSelector=2 template:PodTemplateSpec=3 "
        "strategy:DeploymentStrategy=4 minReadySeconds:int32=5 revisionHistoryLimit:int32?=6 "
        "paused:bool=7 progressDeadlineSeconds:int32?=9"
    ),
    "DeploymentStrategy": "type=1 rollingUpdate:RollingUpdate=2",
    "RollingUpdate": "maxUnavailable:IntOrString=1 maxSurge:IntOrString=2",
    "Job": f"{_OBJECT} spec:JobSpec=2 status:Ignored=3",
    "JobSpec": (
        "parallelism:int32?=1 completions:int32?=2 activeDeadlineSeconds:int64?=3 "
        "selector:LabelSelector=4 manualSelector:bool?=5 template:PodTemplateSpec=6 "
        "backoffLimit:int32?=7 ttlSecondsAfterFinished:int32?=8 completionMode?=9 suspend:bool?=10 "
        "podReplacementPolicy?=14"
    ),
    "CronJob": f"{_OBJECT} spec:CronJobSpec=2 status:Ignored=3",
    "CronJobSpec": (
        "schedule=1 startingDeadlineSeconds:int64?=2 concurrencyPolicy=3 suspend:bool?=4 "
        "jobTemplate:JobTemplateSpec=5 successfulJobsHistoryLimit:int32?=6 "
        "failedJobsHistoryLimit:int32?=7 timeZone?=8"
    ),
    "JobTemplateSpec": f"{_OBJECT} spec:JobSpec=2",
}
_OTHERS: Final = {
    "CrossVersionObjectReference": "kind=1 name=2 apiVersion=3",
    "HorizontalPodAutoscaler": f"{_OBJECT} spec:HorizontalPodAutoscalerSpec=2 status:Ignored=3",
    "HorizontalPodAutoscalerSpec": (
        "scaleTargetRef:CrossVersionObjectReference=1 minReplicas:int32?=2 maxReplicas:int32=3 "
        "targetCPUUtilizationPercentage:int32?=4"
    ),
    "HorizontalPodAutoscalerV2": (
        f"{_OBJECT} spec:HorizontalPodAutoscalerSpecV2=2 status:Ignored=3"
    ),
    "HorizontalPodAutoscalerSpecV2": (
        "scaleTargetRef:CrossVersionObjectReference=1 minReplicas:int32?=2 maxReplicas:int32=3 "
        "metrics:MetricSpec*=4"
    ),
    "MetricSpec": "type=1 resource:ResourceMetricSource=4",
    "ResourceMetricSource": "name=1 target:MetricTarget=2",
    "MetricTarget": "type=1 value:Quantity=2 averageValue:Quantity=3 averageUtilization:int32?=4",
    "PodDisruptionBudget": f"{_OBJECT} spec:PodDisruptionBudgetSpec=2 status:Ignored=3",
    "PodDisruptionBudgetSpec": (
        "minAvailable:IntOrString=1 selector:LabelSelector=2 maxUnavailable:IntOrString=3 "
        "unhealthyPodEvictionPolicy?=4"
    ),
    "PriorityClass": (
        f"{_OBJECT} value:int32=2 globalDefault:bool=3 description=4 preemptionPolicy?=5"
    ),
    "PolicyRule": (
        "verbs:string*=1 apiGroups:string*=2 resources:string*=3 resourceNames:string*=4 "
        "nonResourceURLs:string*=5"
    ),
    "RoleRef": "apiGroup=1 kind=2 name=3",
    "Subject": "kind=1 apiGroup=2 name=3 namespace=4",
    "AggregationRule": "clusterRoleSelectors:LabelSelector*=1",
    "Role": f"{_OBJECT} rules:PolicyRule*=2",
    "ClusterRole": f"{_OBJECT} rules:PolicyRule*=2 aggregationRule:AggregationRule=3",
    "RoleBinding": f"{_OBJECT} subjects:Subject*=2 roleRef:RoleRef=3",
    "ClusterRoleBinding": f"{_OBJECT} subjects:Subject*=2 roleRef:RoleRef=3",
    "Ingress": f"{_OBJECT} spec:IngressSpec=2 status:Ignored=3",
    "IngressSpec": (
        "defaultBackend:IngressBackend=1 tls:IngressTLS*=2 rules:IngressRule*=3 ingressClassName?=4"
    ),
    "IngressTLS": "hosts:string*=1 secretName=2",
    "IngressRule": "host=1 ingressRuleValue:IngressRuleValue=2",
    "IngressRuleValue": "http:HTTPIngressRuleValue=1",
    "HTTPIngressRuleValue": "paths:HTTPIngressPath*=1",
    "HTTPIngressPath": "path=1 backend:IngressBackend=2 pathType?=3",
    "IngressBackend": "service:IngressServiceBackend=4",
    "IngressServiceBackend": "name=1 port:ServiceBackendPort=2",
    "ServiceBackendPort": "name=1 number:int32=2",
}
TABLE: Final[dict[str, str]] = {**_META, **_REVIEWS, **_CORE, **_PODS, **_OTHERS}

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "": ("ConfigMap", "Namespace", "ResourceQuota", "Secret", "Service", "ServiceAccount"),
    "apps": ("Deployment",),
    "authentication.k8s.io": ("SelfSubjectReview", "TokenRequest", "TokenReview"),
    "authorization.k8s.io": (
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "SubjectAccessReview",
    ),
    "autoscaling": ("HorizontalPodAutoscaler",),
    "batch": ("CronJob", "Job"),
    "networking.k8s.io": ("Ingress",),
    "policy": ("Eviction", "PodDisruptionBudget"),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io": ("PriorityClass",),
}
"""Kinds read, by group; a version of its own is a message of its own, as `...V2`."""
