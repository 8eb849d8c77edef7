"""Typed kinds of core/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.objectmeta import ObjectMeta
from ctrlruntime.api.resource import NoStatus
from ctrlruntime.api.scalars import MicroTime, Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel, SpeclessKind
from ctrlruntime.kinds.meta.v1 import Condition, LabelSelector

__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "Affinity",
    "AppArmorProfile",
    "AttachedVolume",
    "AzureDiskVolumeSource",
    "AzureFilePersistentVolumeSource",
    "AzureFileVolumeSource",
    "Binding",
    "CSIPersistentVolumeSource",
    "CSIVolumeSource",
    "Capabilities",
    "CephFSPersistentVolumeSource",
    "CephFSVolumeSource",
    "CinderPersistentVolumeSource",
    "CinderVolumeSource",
    "ClientIPConfig",
    "ClusterTrustBundleProjection",
    "ComponentCondition",
    "ComponentStatus",
    "ConfigMap",
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapNodeConfigSource",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerImage",
    "ContainerPort",
    "ContainerResizePolicy",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "ContainerUser",
    "DaemonEndpoint",
    "DownwardAPIProjection",
    "DownwardAPIVolumeFile",
    "DownwardAPIVolumeSource",
    "EmptyDirVolumeSource",
    "EndpointAddress",
    "EndpointPort",
    "EndpointSubset",
    "Endpoints",
    "EnvFromSource",
    "EnvVar",
    "EnvVarSource",
    "EphemeralContainer",
    "EphemeralVolumeSource",
    "Event",
    "EventSeries",
    "EventSource",
    "ExecAction",
    "FCVolumeSource",
    "FileKeySelector",
    "FlexPersistentVolumeSource",
    "FlexVolumeSource",
    "FlockerVolumeSource",
    "GCEPersistentDiskVolumeSource",
    "GRPCAction",
    "GitRepoVolumeSource",
    "GlusterfsPersistentVolumeSource",
    "GlusterfsVolumeSource",
    "HTTPGetAction",
    "HTTPHeader",
    "HostAlias",
    "HostIP",
    "HostPathVolumeSource",
    "ISCSIPersistentVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "ImageVolumeStatus",
    "KeyToPath",
    "Lifecycle",
    "LifecycleHandler",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeSpec",
    "LinuxContainerUser",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "LocalObjectReference",
    "LocalVolumeSource",
    "ModifyVolumeStatus",
    "NFSVolumeSource",
    "Namespace",
    "NamespaceCondition",
    "NamespaceSpec",
    "NamespaceStatus",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeAllocatableResourceClaimStatus",
    "NodeCondition",
    "NodeConfigSource",
    "NodeConfigStatus",
    "NodeDaemonEndpoints",
    "NodeFeatures",
    "NodeRuntimeHandler",
    "NodeRuntimeHandlerFeatures",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NodeSwapStatus",
    "NodeSystemInfo",
    "ObjectFieldSelector",
    "ObjectReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimCondition",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolumeSource",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "PhotonPersistentDiskVolumeSource",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodCertificateProjection",
    "PodCondition",
    "PodDNSConfig",
    "PodDNSConfigOption",
    "PodExtendedResourceClaimStatus",
    "PodIP",
    "PodOS",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSecurityContext",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PodTemplateSpec",
    "PortStatus",
    "PortworxVolumeSource",
    "PreferredSchedulingTerm",
    "Probe",
    "ProjectedVolumeSource",
    "QuobyteVolumeSource",
    "RBDPersistentVolumeSource",
    "RBDVolumeSource",
    "ReplicationController",
    "ReplicationControllerCondition",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceClaim",
    "ResourceFieldSelector",
    "ResourceHealth",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "ResourceStatus",
    "SELinuxOptions",
    "ScaleIOPersistentVolumeSource",
    "ScaleIOVolumeSource",
    "ScopeSelector",
    "ScopedResourceSelectorRequirement",
    "SeccompProfile",
    "Secret",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
    "SecretReference",
    "SecretVolumeSource",
    "SecurityContext",
    "Service",
    "ServiceAccount",
    "ServiceAccountTokenProjection",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "SessionAffinityConfig",
    "SleepAction",
    "StorageOSPersistentVolumeSource",
    "StorageOSVolumeSource",
    "Sysctl",
    "TCPSocketAction",
    "Taint",
    "Toleration",
    "TopologySelectorLabelRequirement",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "TypedLocalObjectReference",
    "TypedObjectReference",
    "Volume",
    "VolumeDevice",
    "VolumeMount",
    "VolumeMountStatus",
    "VolumeNodeAffinity",
    "VolumeProjection",
    "VolumeResourceRequirements",
    "VolumeStatus",
    "VsphereVirtualDiskVolumeSource",
    "WeightedPodAffinityTerm",
    "WindowsSecurityContextOptions",
]


class NodeSelectorRequirement(BuiltinModel):
    """NodeSelectorRequirement of core/v1."""

    key: str
    operator: str
    values: list[str] = Field(default_factory=list)


class NodeSelectorTerm(BuiltinModel):
    """NodeSelectorTerm of core/v1."""

    match_expressions: list[NodeSelectorRequirement] = Field(default_factory=list)
    match_fields: list[NodeSelectorRequirement] = Field(default_factory=list)


class PreferredSchedulingTerm(BuiltinModel):
    """PreferredSchedulingTerm of core/v1."""

    preference: NodeSelectorTerm
    weight: int


class NodeSelector(BuiltinModel):
    """NodeSelector of core/v1."""

    node_selector_terms: list[NodeSelectorTerm]


class NodeAffinity(BuiltinModel):
    """NodeAffinity of core/v1."""

    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = Field(
        default_factory=list
    )
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(BuiltinModel):
    """PodAffinityTerm of core/v1."""

    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = Field(default_factory=list)
    mismatch_label_keys: list[str] = Field(default_factory=list)
    namespace_selector: LabelSelector | None = None
    namespaces: list[str] = Field(default_factory=list)
    topology_key: str


class WeightedPodAffinityTerm(BuiltinModel):
    """WeightedPodAffinityTerm of core/v1."""

    pod_affinity_term: PodAffinityTerm
    weight: int


class PodAffinity(BuiltinModel):
    """PodAffinity of core/v1."""

    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = Field(
        default_factory=list
    )
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = Field(
        default_factory=list
    )


class PodAntiAffinity(BuiltinModel):
    """PodAntiAffinity of core/v1."""

    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = Field(
        default_factory=list
    )
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = Field(
        default_factory=list
    )


class Affinity(BuiltinModel):
    """Affinity of core/v1."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class ConfigMapKeySelector(BuiltinModel):
    """ConfigMapKeySelector of core/v1."""

    key: str
    name: str | None = None
    optional: bool | None = None


class ObjectFieldSelector(BuiltinModel):
    """ObjectFieldSelector of core/v1."""

    api_version: str | None = None
    field_path: str


class FileKeySelector(BuiltinModel):
    """FileKeySelector of core/v1."""

    key: str
    optional: bool | None = None
    path: str
    volume_name: str


class ResourceFieldSelector(BuiltinModel):
    """ResourceFieldSelector of core/v1."""

    container_name: str | None = None
    divisor: str | None = None
    resource: str


class SecretKeySelector(BuiltinModel):
    """SecretKeySelector of core/v1."""

    key: str
    name: str | None = None
    optional: bool | None = None


class EnvVarSource(BuiltinModel):
    """EnvVarSource of core/v1."""

    config_map_key_ref: ConfigMapKeySelector | None = None
    field_ref: ObjectFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(BuiltinModel):
    """EnvVar of core/v1."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(BuiltinModel):
    """ConfigMapEnvSource of core/v1."""

    name: str | None = None
    optional: bool | None = None


class SecretEnvSource(BuiltinModel):
    """SecretEnvSource of core/v1."""

    name: str | None = None
    optional: bool | None = None


class EnvFromSource(BuiltinModel):
    """EnvFromSource of core/v1."""

    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str | None = None
    secret_ref: SecretEnvSource | None = None


class ExecAction(BuiltinModel):
    """ExecAction of core/v1."""

    command: list[str] = Field(default_factory=list)


class HTTPHeader(BuiltinModel):
    """HTTPHeader of core/v1."""

    name: str
    value: str


class HTTPGetAction(BuiltinModel):
    """HTTPGetAction of core/v1."""

    host: str | None = None
    http_headers: list[HTTPHeader] = Field(default_factory=list)
    path: str | None = None
    port: int | str
    scheme: str | None = None


class SleepAction(BuiltinModel):
    """SleepAction of core/v1."""

    seconds: int


class TCPSocketAction(BuiltinModel):
    """TCPSocketAction of core/v1."""

    host: str | None = None
    port: int | str


class LifecycleHandler(BuiltinModel):
    """LifecycleHandler of core/v1."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(BuiltinModel):
    """Lifecycle of core/v1."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class GRPCAction(BuiltinModel):
    """GRPCAction of core/v1."""

    port: int
    service: str | None = None


class Probe(BuiltinModel):
    """Probe of core/v1."""

    exec: ExecAction | None = None
    failure_threshold: int | None = None
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int | None = None


class ContainerPort(BuiltinModel):
    """ContainerPort of core/v1."""

    container_port: int
    host_ip: str | None = Field(
        default=None, validation_alias="hostIP", serialization_alias="hostIP"
    )
    host_port: int | None = None
    name: str | None = None
    protocol: str | None = None


class ContainerResizePolicy(BuiltinModel):
    """ContainerResizePolicy of core/v1."""

    resource_name: str
    restart_policy: str


class ResourceClaim(BuiltinModel):
    """ResourceClaim of core/v1."""

    name: str
    request: str | None = None


class ResourceRequirements(BuiltinModel):
    """ResourceRequirements of core/v1."""

    claims: list[ResourceClaim] = Field(default_factory=list)
    limits: dict[str, str] = Field(default_factory=dict)
    requests: dict[str, str] = Field(default_factory=dict)


class ContainerRestartRuleOnExitCodes(BuiltinModel):
    """ContainerRestartRuleOnExitCodes of core/v1."""

    operator: str
    values: list[int] = Field(default_factory=list)


class ContainerRestartRule(BuiltinModel):
    """ContainerRestartRule of core/v1."""

    action: str
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class AppArmorProfile(BuiltinModel):
    """AppArmorProfile of core/v1."""

    localhost_profile: str | None = None
    type: str


class Capabilities(BuiltinModel):
    """Capabilities of core/v1."""

    add: list[str] = Field(default_factory=list)
    drop: list[str] = Field(default_factory=list)


class SELinuxOptions(BuiltinModel):
    """SELinuxOptions of core/v1."""

    level: str | None = None
    role: str | None = None
    type: str | None = None
    user: str | None = None


class SeccompProfile(BuiltinModel):
    """SeccompProfile of core/v1."""

    localhost_profile: str | None = None
    type: str


class WindowsSecurityContextOptions(BuiltinModel):
    """WindowsSecurityContextOptions of core/v1."""

    gmsa_credential_spec: str | None = None
    gmsa_credential_spec_name: str | None = None
    host_process: bool | None = None
    run_as_user_name: str | None = None


class SecurityContext(BuiltinModel):
    """SecurityContext of core/v1."""

    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class VolumeDevice(BuiltinModel):
    """VolumeDevice of core/v1."""

    device_path: str
    name: str


class VolumeMount(BuiltinModel):
    """VolumeMount of core/v1."""

    mount_path: str
    mount_propagation: str | None = None
    name: str
    read_only: bool | None = None
    recursive_read_only: str | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None


class Container(BuiltinModel):
    """Container of core/v1."""

    args: list[str] = Field(default_factory=list)
    command: list[str] = Field(default_factory=list)
    env: list[EnvVar] = Field(default_factory=list)
    env_from: list[EnvFromSource] = Field(default_factory=list)
    image: str | None = None
    image_pull_policy: str | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str
    ports: list[ContainerPort] = Field(default_factory=list)
    readiness_probe: Probe | None = None
    resize_policy: list[ContainerResizePolicy] = Field(default_factory=list)
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] = Field(default_factory=list)
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    tty: bool | None = None
    volume_devices: list[VolumeDevice] = Field(default_factory=list)
    volume_mounts: list[VolumeMount] = Field(default_factory=list)
    working_dir: str | None = None


class PodDNSConfigOption(BuiltinModel):
    """PodDNSConfigOption of core/v1."""

    name: str | None = None
    value: str | None = None


class PodDNSConfig(BuiltinModel):
    """PodDNSConfig of core/v1."""

    nameservers: list[str] = Field(default_factory=list)
    options_: list[PodDNSConfigOption] = Field(
        default_factory=list, validation_alias="options", serialization_alias="options"
    )
    searches: list[str] = Field(default_factory=list)


class EphemeralContainer(BuiltinModel):
    """EphemeralContainer of core/v1."""

    args: list[str] = Field(default_factory=list)
    command: list[str] = Field(default_factory=list)
    env: list[EnvVar] = Field(default_factory=list)
    env_from: list[EnvFromSource] = Field(default_factory=list)
    image: str | None = None
    image_pull_policy: str | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str
    ports: list[ContainerPort] = Field(default_factory=list)
    readiness_probe: Probe | None = None
    resize_policy: list[ContainerResizePolicy] = Field(default_factory=list)
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[ContainerRestartRule] = Field(default_factory=list)
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    target_container_name: str | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    tty: bool | None = None
    volume_devices: list[VolumeDevice] = Field(default_factory=list)
    volume_mounts: list[VolumeMount] = Field(default_factory=list)
    working_dir: str | None = None


class HostAlias(BuiltinModel):
    """HostAlias of core/v1."""

    hostnames: list[str] = Field(default_factory=list)
    ip: str


class LocalObjectReference(BuiltinModel):
    """LocalObjectReference of core/v1."""

    name: str | None = None


class PodOS(BuiltinModel):
    """PodOS of core/v1."""

    name: str


class PodReadinessGate(BuiltinModel):
    """PodReadinessGate of core/v1."""

    condition_type: str


class PodResourceClaim(BuiltinModel):
    """PodResourceClaim of core/v1."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(BuiltinModel):
    """PodSchedulingGate of core/v1."""

    name: str


class PodSchedulingGroup(BuiltinModel):
    """PodSchedulingGroup of core/v1."""

    pod_group_name: str | None = None


class Sysctl(BuiltinModel):
    """Sysctl of core/v1."""

    name: str
    value: str


class PodSecurityContext(BuiltinModel):
    """PodSecurityContext of core/v1."""

    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: str | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: list[int] = Field(default_factory=list)
    supplemental_groups_policy: str | None = None
    sysctls: list[Sysctl] = Field(default_factory=list)
    windows_options: WindowsSecurityContextOptions | None = None


class Toleration(BuiltinModel):
    """Toleration of core/v1."""

    effect: str | None = None
    key: str | None = None
    operator: str | None = None
    toleration_seconds: int | None = None
    value: str | None = None


class TopologySpreadConstraint(BuiltinModel):
    """TopologySpreadConstraint of core/v1."""

    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = Field(default_factory=list)
    max_skew: int
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    topology_key: str
    when_unsatisfiable: str


class AWSElasticBlockStoreVolumeSource(BuiltinModel):
    """AWSElasticBlockStoreVolumeSource of core/v1."""

    fs_type: str | None = None
    partition: int | None = None
    read_only: bool | None = None
    volume_id: str = Field(validation_alias="volumeID", serialization_alias="volumeID")


class AzureDiskVolumeSource(BuiltinModel):
    """AzureDiskVolumeSource of core/v1."""

    caching_mode: str | None = None
    disk_name: str
    disk_uri: str = Field(validation_alias="diskURI", serialization_alias="diskURI")
    fs_type: str | None = None
    kind: str | None = None
    read_only: bool | None = None


class AzureFileVolumeSource(BuiltinModel):
    """AzureFileVolumeSource of core/v1."""

    read_only: bool | None = None
    secret_name: str
    share_name: str


class CephFSVolumeSource(BuiltinModel):
    """CephFSVolumeSource of core/v1."""

    monitors: list[str]
    path: str | None = None
    read_only: bool | None = None
    secret_file: str | None = None
    secret_ref: LocalObjectReference | None = None
    user: str | None = None


class CinderVolumeSource(BuiltinModel):
    """CinderVolumeSource of core/v1."""

    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    volume_id: str = Field(validation_alias="volumeID", serialization_alias="volumeID")


class KeyToPath(BuiltinModel):
    """KeyToPath of core/v1."""

    key: str
    mode: int | None = None
    path: str


class ConfigMapVolumeSource(BuiltinModel):
    """ConfigMapVolumeSource of core/v1."""

    default_mode: int | None = None
    items: list[KeyToPath] = Field(default_factory=list)
    name: str | None = None
    optional: bool | None = None


class CSIVolumeSource(BuiltinModel):
    """CSIVolumeSource of core/v1."""

    driver: str
    fs_type: str | None = None
    node_publish_secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    volume_attributes: dict[str, str] = Field(default_factory=dict)


class DownwardAPIVolumeFile(BuiltinModel):
    """DownwardAPIVolumeFile of core/v1."""

    field_ref: ObjectFieldSelector | None = None
    mode: int | None = None
    path: str
    resource_field_ref: ResourceFieldSelector | None = None


class DownwardAPIVolumeSource(BuiltinModel):
    """DownwardAPIVolumeSource of core/v1."""

    default_mode: int | None = None
    items: list[DownwardAPIVolumeFile] = Field(default_factory=list)


class EmptyDirVolumeSource(BuiltinModel):
    """EmptyDirVolumeSource of core/v1."""

    medium: str | None = None
    size_limit: str | None = None


class TypedLocalObjectReference(BuiltinModel):
    """TypedLocalObjectReference of core/v1."""

    api_group: str | None = None
    kind: str
    name: str


class TypedObjectReference(BuiltinModel):
    """TypedObjectReference of core/v1."""

    api_group: str | None = None
    kind: str
    name: str
    namespace: str | None = None


class VolumeResourceRequirements(BuiltinModel):
    """VolumeResourceRequirements of core/v1."""

    limits: dict[str, str] = Field(default_factory=dict)
    requests: dict[str, str] = Field(default_factory=dict)


class PersistentVolumeClaimSpec(BuiltinModel):
    """PersistentVolumeClaimSpec of core/v1."""

    access_modes: list[str] = Field(default_factory=list)
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None


class PersistentVolumeClaimTemplate(BuiltinModel):
    """PersistentVolumeClaimTemplate of core/v1."""

    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec


class EphemeralVolumeSource(BuiltinModel):
    """EphemeralVolumeSource of core/v1."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class FCVolumeSource(BuiltinModel):
    """FCVolumeSource of core/v1."""

    fs_type: str | None = None
    lun: int | None = None
    read_only: bool | None = None
    target_wwns: list[str] = Field(
        default_factory=list, validation_alias="targetWWNs", serialization_alias="targetWWNs"
    )
    wwids: list[str] = Field(default_factory=list)


class FlexVolumeSource(BuiltinModel):
    """FlexVolumeSource of core/v1."""

    driver: str
    fs_type: str | None = None
    options_: dict[str, str] = Field(
        default_factory=dict, validation_alias="options", serialization_alias="options"
    )
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class FlockerVolumeSource(BuiltinModel):
    """FlockerVolumeSource of core/v1."""

    dataset_name: str | None = None
    dataset_uuid: str | None = Field(
        default=None, validation_alias="datasetUUID", serialization_alias="datasetUUID"
    )


class GCEPersistentDiskVolumeSource(BuiltinModel):
    """GCEPersistentDiskVolumeSource of core/v1."""

    fs_type: str | None = None
    partition: int | None = None
    pd_name: str
    read_only: bool | None = None


class GitRepoVolumeSource(BuiltinModel):
    """GitRepoVolumeSource of core/v1."""

    directory: str | None = None
    repository: str
    revision: str | None = None


class GlusterfsVolumeSource(BuiltinModel):
    """GlusterfsVolumeSource of core/v1."""

    endpoints: str
    path: str
    read_only: bool | None = None


class HostPathVolumeSource(BuiltinModel):
    """HostPathVolumeSource of core/v1."""

    path: str
    type: str | None = None


class ImageVolumeSource(BuiltinModel):
    """ImageVolumeSource of core/v1."""

    pull_policy: str | None = None
    reference: str | None = None


class ISCSIVolumeSource(BuiltinModel):
    """ISCSIVolumeSource of core/v1."""

    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    fs_type: str | None = None
    initiator_name: str | None = None
    iqn: str
    iscsi_interface: str | None = None
    lun: int
    portals: list[str] = Field(default_factory=list)
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    target_portal: str


class NFSVolumeSource(BuiltinModel):
    """NFSVolumeSource of core/v1."""

    path: str
    read_only: bool | None = None
    server: str


class PersistentVolumeClaimVolumeSource(BuiltinModel):
    """PersistentVolumeClaimVolumeSource of core/v1."""

    claim_name: str
    read_only: bool | None = None


class PhotonPersistentDiskVolumeSource(BuiltinModel):
    """PhotonPersistentDiskVolumeSource of core/v1."""

    fs_type: str | None = None
    pd_id: str = Field(validation_alias="pdID", serialization_alias="pdID")


class PortworxVolumeSource(BuiltinModel):
    """PortworxVolumeSource of core/v1."""

    fs_type: str | None = None
    read_only: bool | None = None
    volume_id: str = Field(validation_alias="volumeID", serialization_alias="volumeID")


class ClusterTrustBundleProjection(BuiltinModel):
    """ClusterTrustBundleProjection of core/v1."""

    label_selector: LabelSelector | None = None
    name: str | None = None
    optional: bool | None = None
    path: str
    signer_name: str | None = None


class ConfigMapProjection(BuiltinModel):
    """ConfigMapProjection of core/v1."""

    items: list[KeyToPath] = Field(default_factory=list)
    name: str | None = None
    optional: bool | None = None


class DownwardAPIProjection(BuiltinModel):
    """DownwardAPIProjection of core/v1."""

    items: list[DownwardAPIVolumeFile] = Field(default_factory=list)


class PodCertificateProjection(BuiltinModel):
    """PodCertificateProjection of core/v1."""

    certificate_chain_path: str | None = None
    credential_bundle_path: str | None = None
    key_path: str | None = None
    key_type: str
    max_expiration_seconds: int | None = None
    signer_name: str
    user_annotations: dict[str, str] = Field(default_factory=dict)


class SecretProjection(BuiltinModel):
    """SecretProjection of core/v1."""

    items: list[KeyToPath] = Field(default_factory=list)
    name: str | None = None
    optional: bool | None = None


class ServiceAccountTokenProjection(BuiltinModel):
    """ServiceAccountTokenProjection of core/v1."""

    audience: str | None = None
    expiration_seconds: int | None = None
    path: str


class VolumeProjection(BuiltinModel):
    """VolumeProjection of core/v1."""

    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = Field(
        default=None, validation_alias="downwardAPI", serialization_alias="downwardAPI"
    )
    pod_certificate: PodCertificateProjection | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(BuiltinModel):
    """ProjectedVolumeSource of core/v1."""

    default_mode: int | None = None
    sources: list[VolumeProjection] = Field(default_factory=list)


class QuobyteVolumeSource(BuiltinModel):
    """QuobyteVolumeSource of core/v1."""

    group: str | None = None
    read_only: bool | None = None
    registry: str
    tenant: str | None = None
    user: str | None = None
    volume: str


class RBDVolumeSource(BuiltinModel):
    """RBDVolumeSource of core/v1."""

    fs_type: str | None = None
    image: str
    keyring: str | None = None
    monitors: list[str]
    pool: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    user: str | None = None


class ScaleIOVolumeSource(BuiltinModel):
    """ScaleIOVolumeSource of core/v1."""

    fs_type: str | None = None
    gateway: str
    protection_domain: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference
    ssl_enabled: bool | None = None
    storage_mode: str | None = None
    storage_pool: str | None = None
    system: str
    volume_name: str | None = None


class SecretVolumeSource(BuiltinModel):
    """SecretVolumeSource of core/v1."""

    default_mode: int | None = None
    items: list[KeyToPath] = Field(default_factory=list)
    optional: bool | None = None
    secret_name: str | None = None


class StorageOSVolumeSource(BuiltinModel):
    """StorageOSVolumeSource of core/v1."""

    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    volume_name: str | None = None
    volume_namespace: str | None = None


class VsphereVirtualDiskVolumeSource(BuiltinModel):
    """VsphereVirtualDiskVolumeSource of core/v1."""

    fs_type: str | None = None
    storage_policy_id: str | None = Field(
        default=None, validation_alias="storagePolicyID", serialization_alias="storagePolicyID"
    )
    storage_policy_name: str | None = None
    volume_path: str


class Volume(BuiltinModel):
    """Volume of core/v1."""

    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = Field(
        default=None, validation_alias="downwardAPI", serialization_alias="downwardAPI"
    )
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    name: str
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = Field(
        default=None, validation_alias="scaleIO", serialization_alias="scaleIO"
    )
    secret: SecretVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PodSpec(BuiltinModel):
    """PodSpec of core/v1."""

    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: list[Container]
    dns_config: PodDNSConfig | None = None
    dns_policy: str | None = None
    enable_service_links: bool | None = None
    ephemeral_containers: list[EphemeralContainer] = Field(default_factory=list)
    host_aliases: list[HostAlias] = Field(default_factory=list)
    host_ipc: bool | None = Field(
        default=None, validation_alias="hostIPC", serialization_alias="hostIPC"
    )
    host_network: bool | None = None
    host_pid: bool | None = Field(
        default=None, validation_alias="hostPID", serialization_alias="hostPID"
    )
    host_users: bool | None = None
    hostname: str | None = None
    hostname_override: str | None = None
    image_pull_secrets: list[LocalObjectReference] = Field(default_factory=list)
    init_containers: list[Container] = Field(default_factory=list)
    node_name: str | None = None
    node_selector: dict[str, str] = Field(default_factory=dict)
    os: PodOS | None = None
    overhead: dict[str, str] = Field(default_factory=dict)
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    readiness_gates: list[PodReadinessGate] = Field(default_factory=list)
    resource_claims: list[PodResourceClaim] = Field(default_factory=list)
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    runtime_class_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: list[PodSchedulingGate] = Field(default_factory=list)
    scheduling_group: PodSchedulingGroup | None = None
    security_context: PodSecurityContext | None = None
    service_account: str | None = None
    service_account_name: str | None = None
    set_hostname_as_fqdn: bool | None = Field(
        default=None, validation_alias="setHostnameAsFQDN", serialization_alias="setHostnameAsFQDN"
    )
    share_process_namespace: bool | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None
    tolerations: list[Toleration] = Field(default_factory=list)
    topology_spread_constraints: list[TopologySpreadConstraint] = Field(default_factory=list)
    volumes: list[Volume] = Field(default_factory=list)


class PodTemplateSpec(BuiltinModel):
    """PodTemplateSpec of core/v1."""

    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class PersistentVolumeClaimCondition(BuiltinModel):
    """PersistentVolumeClaimCondition of core/v1."""

    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class ModifyVolumeStatus(BuiltinModel):
    """ModifyVolumeStatus of core/v1."""

    status: str | None = None
    target_volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(BuiltinModel):
    """PersistentVolumeClaimStatus of core/v1."""

    access_modes: list[str] = Field(default_factory=list)
    allocated_resource_statuses: dict[str, str] = Field(default_factory=dict)
    allocated_resources: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    conditions: list[PersistentVolumeClaimCondition] = Field(default_factory=list)
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None
    phase: str | None = None


class PersistentVolumeClaim(
    BuiltinKind[PersistentVolumeClaimSpec, PersistentVolumeClaimStatus], group="", version="v1"
):
    """PersistentVolumeClaim of core/v1."""


class ObjectReference(BuiltinModel):
    """ObjectReference of core/v1."""

    api_version: str | None = None
    field_path: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    uid: str | None = None


class Binding(SpeclessKind[NoStatus], group="", version="v1"):
    """Binding of core/v1."""

    target: ObjectReference


class ComponentCondition(BuiltinModel):
    """ComponentCondition of core/v1."""

    error: str | None = None
    message: str | None = None
    status: str
    type: str


class ComponentStatus(SpeclessKind[NoStatus], group="", version="v1", scope="Cluster"):
    """ComponentStatus of core/v1."""

    conditions: list[ComponentCondition] = Field(default_factory=list)


class ConfigMap(SpeclessKind[NoStatus], group="", version="v1"):
    """ConfigMap of core/v1."""

    binary_data: dict[str, str] = Field(default_factory=dict)
    data: dict[str, str] = Field(default_factory=dict)
    immutable: bool | None = None


class EndpointAddress(BuiltinModel):
    """EndpointAddress of core/v1."""

    hostname: str | None = None
    ip: str
    node_name: str | None = None
    target_ref: ObjectReference | None = None


class EndpointPort(BuiltinModel):
    """EndpointPort of core/v1."""

    app_protocol: str | None = None
    name: str | None = None
    port: int
    protocol: str | None = None


class EndpointSubset(BuiltinModel):
    """EndpointSubset of core/v1."""

    addresses: list[EndpointAddress] = Field(default_factory=list)
    not_ready_addresses: list[EndpointAddress] = Field(default_factory=list)
    ports: list[EndpointPort] = Field(default_factory=list)


class Endpoints(SpeclessKind[NoStatus], group="", version="v1", plural="endpoints"):
    """Endpoints of core/v1."""

    subsets: list[EndpointSubset] = Field(default_factory=list)


class EventSeries(BuiltinModel):
    """EventSeries of core/v1."""

    count: int | None = None
    last_observed_time: MicroTime | None = None


class EventSource(BuiltinModel):
    """EventSource of core/v1."""

    component: str | None = None
    host: str | None = None


class Event(SpeclessKind[NoStatus], group="", version="v1"):
    """Event of core/v1."""

    action: str | None = None
    count: int | None = None
    event_time: MicroTime | None = None
    first_timestamp: Time | None = None
    involved_object: ObjectReference
    last_timestamp: Time | None = None
    message: str | None = None
    reason: str | None = None
    related: ObjectReference | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    type: str | None = None


class LimitRangeItem(BuiltinModel):
    """LimitRangeItem of core/v1."""

    default: dict[str, str] = Field(default_factory=dict)
    default_request: dict[str, str] = Field(default_factory=dict)
    max: dict[str, str] = Field(default_factory=dict)
    max_limit_request_ratio: dict[str, str] = Field(default_factory=dict)
    min: dict[str, str] = Field(default_factory=dict)
    type: str


class LimitRangeSpec(BuiltinModel):
    """LimitRangeSpec of core/v1."""

    limits: list[LimitRangeItem]


class LimitRange(BuiltinKind[LimitRangeSpec, NoStatus], group="", version="v1"):
    """LimitRange of core/v1."""


class NamespaceSpec(BuiltinModel):
    """NamespaceSpec of core/v1."""

    finalizers: list[str] = Field(default_factory=list)


class NamespaceCondition(BuiltinModel):
    """NamespaceCondition of core/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class NamespaceStatus(BuiltinModel):
    """NamespaceStatus of core/v1."""

    conditions: list[NamespaceCondition] = Field(default_factory=list)
    phase: str | None = None


class Namespace(
    BuiltinKind[NamespaceSpec, NamespaceStatus], group="", version="v1", scope="Cluster"
):
    """Namespace of core/v1."""


class ConfigMapNodeConfigSource(BuiltinModel):
    """ConfigMapNodeConfigSource of core/v1."""

    kubelet_config_key: str
    name: str
    namespace: str
    resource_version: str | None = None
    uid: str | None = None


class NodeConfigSource(BuiltinModel):
    """NodeConfigSource of core/v1."""

    config_map: ConfigMapNodeConfigSource | None = None


class Taint(BuiltinModel):
    """Taint of core/v1."""

    effect: str
    key: str
    time_added: Time | None = None
    value: str | None = None


class NodeSpec(BuiltinModel):
    """NodeSpec of core/v1."""

    config_source: NodeConfigSource | None = None
    external_id: str | None = Field(
        default=None, validation_alias="externalID", serialization_alias="externalID"
    )
    pod_cidr: str | None = Field(
        default=None, validation_alias="podCIDR", serialization_alias="podCIDR"
    )
    pod_cidrs: list[str] = Field(
        default_factory=list, validation_alias="podCIDRs", serialization_alias="podCIDRs"
    )
    provider_id: str | None = Field(
        default=None, validation_alias="providerID", serialization_alias="providerID"
    )
    taints: list[Taint] = Field(default_factory=list)
    unschedulable: bool | None = None


class NodeAddress(BuiltinModel):
    """NodeAddress of core/v1."""

    address: str
    type: str


class NodeCondition(BuiltinModel):
    """NodeCondition of core/v1."""

    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class NodeConfigStatus(BuiltinModel):
    """NodeConfigStatus of core/v1."""

    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str | None = None
    last_known_good: NodeConfigSource | None = None


class DaemonEndpoint(BuiltinModel):
    """DaemonEndpoint of core/v1."""

    port: int = Field(validation_alias="Port", serialization_alias="Port")


class NodeDaemonEndpoints(BuiltinModel):
    """NodeDaemonEndpoints of core/v1."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeFeatures(BuiltinModel):
    """NodeFeatures of core/v1."""

    supplemental_groups_policy: bool | None = None


class ContainerImage(BuiltinModel):
    """ContainerImage of core/v1."""

    names: list[str] = Field(default_factory=list)
    size_bytes: int | None = None


class NodeSwapStatus(BuiltinModel):
    """NodeSwapStatus of core/v1."""

    capacity: int | None = None


class NodeSystemInfo(BuiltinModel):
    """NodeSystemInfo of core/v1."""

    architecture: str
    boot_id: str = Field(validation_alias="bootID", serialization_alias="bootID")
    container_runtime_version: str
    kernel_version: str
    kube_proxy_version: str
    kubelet_version: str
    machine_id: str = Field(validation_alias="machineID", serialization_alias="machineID")
    operating_system: str
    os_image: str
    swap: NodeSwapStatus | None = None
    system_uuid: str = Field(validation_alias="systemUUID", serialization_alias="systemUUID")


class NodeRuntimeHandlerFeatures(BuiltinModel):
    """NodeRuntimeHandlerFeatures of core/v1."""

    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(BuiltinModel):
    """NodeRuntimeHandler of core/v1."""

    features: NodeRuntimeHandlerFeatures | None = None
    name: str | None = None


class AttachedVolume(BuiltinModel):
    """AttachedVolume of core/v1."""

    device_path: str
    name: str


class NodeStatus(BuiltinModel):
    """NodeStatus of core/v1."""

    addresses: list[NodeAddress] = Field(default_factory=list)
    allocatable: dict[str, str] = Field(default_factory=dict)
    capacity: dict[str, str] = Field(default_factory=dict)
    conditions: list[NodeCondition] = Field(default_factory=list)
    config: NodeConfigStatus | None = None
    daemon_endpoints: NodeDaemonEndpoints | None = None
    declared_features: list[str] = Field(default_factory=list)
    features: NodeFeatures | None = None
    images: list[ContainerImage] = Field(default_factory=list)
    node_info: NodeSystemInfo | None = None
    phase: str | None = None
    runtime_handlers: list[NodeRuntimeHandler] = Field(default_factory=list)
    volumes_attached: list[AttachedVolume] = Field(default_factory=list)
    volumes_in_use: list[str] = Field(default_factory=list)


class Node(BuiltinKind[NodeSpec, NodeStatus], group="", version="v1", scope="Cluster"):
    """Node of core/v1."""


class AzureFilePersistentVolumeSource(BuiltinModel):
    """AzureFilePersistentVolumeSource of core/v1."""

    read_only: bool | None = None
    secret_name: str
    secret_namespace: str | None = None
    share_name: str


class SecretReference(BuiltinModel):
    """SecretReference of core/v1."""

    name: str | None = None
    namespace: str | None = None


class CephFSPersistentVolumeSource(BuiltinModel):
    """CephFSPersistentVolumeSource of core/v1."""

    monitors: list[str]
    path: str | None = None
    read_only: bool | None = None
    secret_file: str | None = None
    secret_ref: SecretReference | None = None
    user: str | None = None


class CinderPersistentVolumeSource(BuiltinModel):
    """CinderPersistentVolumeSource of core/v1."""

    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None
    volume_id: str = Field(validation_alias="volumeID", serialization_alias="volumeID")


class CSIPersistentVolumeSource(BuiltinModel):
    """CSIPersistentVolumeSource of core/v1."""

    controller_expand_secret_ref: SecretReference | None = None
    controller_publish_secret_ref: SecretReference | None = None
    driver: str
    fs_type: str | None = None
    node_expand_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    read_only: bool | None = None
    volume_attributes: dict[str, str] = Field(default_factory=dict)
    volume_handle: str


class FlexPersistentVolumeSource(BuiltinModel):
    """FlexPersistentVolumeSource of core/v1."""

    driver: str
    fs_type: str | None = None
    options_: dict[str, str] = Field(
        default_factory=dict, validation_alias="options", serialization_alias="options"
    )
    read_only: bool | None = None
    secret_ref: SecretReference | None = None


class GlusterfsPersistentVolumeSource(BuiltinModel):
    """GlusterfsPersistentVolumeSource of core/v1."""

    endpoints: str
    endpoints_namespace: str | None = None
    path: str
    read_only: bool | None = None


class ISCSIPersistentVolumeSource(BuiltinModel):
    """ISCSIPersistentVolumeSource of core/v1."""

    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    fs_type: str | None = None
    initiator_name: str | None = None
    iqn: str
    iscsi_interface: str | None = None
    lun: int
    portals: list[str] = Field(default_factory=list)
    read_only: bool | None = None
    secret_ref: SecretReference | None = None
    target_portal: str


class LocalVolumeSource(BuiltinModel):
    """LocalVolumeSource of core/v1."""

    fs_type: str | None = None
    path: str


class VolumeNodeAffinity(BuiltinModel):
    """VolumeNodeAffinity of core/v1."""

    required: NodeSelector | None = None


class RBDPersistentVolumeSource(BuiltinModel):
    """RBDPersistentVolumeSource of core/v1."""

    fs_type: str | None = None
    image: str
    keyring: str | None = None
    monitors: list[str]
    pool: str | None = None
    read_only: bool | None = None
    secret_ref: SecretReference | None = None
    user: str | None = None


class ScaleIOPersistentVolumeSource(BuiltinModel):
    """ScaleIOPersistentVolumeSource of core/v1."""

    fs_type: str | None = None
    gateway: str
    protection_domain: str | None = None
    read_only: bool | None = None
    secret_ref: SecretReference
    ssl_enabled: bool | None = None
    storage_mode: str | None = None
    storage_pool: str | None = None
    system: str
    volume_name: str | None = None


class StorageOSPersistentVolumeSource(BuiltinModel):
    """StorageOSPersistentVolumeSource of core/v1."""

    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: ObjectReference | None = None
    volume_name: str | None = None
    volume_namespace: str | None = None


class PersistentVolumeSpec(BuiltinModel):
    """PersistentVolumeSpec of core/v1."""

    access_modes: list[str] = Field(default_factory=list)
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFilePersistentVolumeSource | None = None
    capacity: dict[str, str] = Field(default_factory=dict)
    cephfs: CephFSPersistentVolumeSource | None = None
    cinder: CinderPersistentVolumeSource | None = None
    claim_ref: ObjectReference | None = None
    csi: CSIPersistentVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexPersistentVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    glusterfs: GlusterfsPersistentVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    iscsi: ISCSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    mount_options: list[str] = Field(default_factory=list)
    nfs: NFSVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: str | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDPersistentVolumeSource | None = None
    scale_io: ScaleIOPersistentVolumeSource | None = Field(
        default=None, validation_alias="scaleIO", serialization_alias="scaleIO"
    )
    storage_class_name: str | None = None
    storageos: StorageOSPersistentVolumeSource | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PersistentVolumeStatus(BuiltinModel):
    """PersistentVolumeStatus of core/v1."""

    last_phase_transition_time: Time | None = None
    message: str | None = None
    phase: str | None = None
    reason: str | None = None


class PersistentVolume(
    BuiltinKind[PersistentVolumeSpec, PersistentVolumeStatus],
    group="",
    version="v1",
    scope="Cluster",
):
    """PersistentVolume of core/v1."""


class PodCondition(BuiltinModel):
    """PodCondition of core/v1."""

    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str
    type: str


class ResourceHealth(BuiltinModel):
    """ResourceHealth of core/v1."""

    health: str | None = None
    message: str | None = None
    resource_id: str = Field(validation_alias="resourceID", serialization_alias="resourceID")


class ResourceStatus(BuiltinModel):
    """ResourceStatus of core/v1."""

    name: str | None = None
    resources: list[ResourceHealth] = Field(default_factory=list)


class ContainerStateRunning(BuiltinModel):
    """ContainerStateRunning of core/v1."""

    started_at: Time | None = None


class ContainerStateTerminated(BuiltinModel):
    """ContainerStateTerminated of core/v1."""

    container_id: str | None = Field(
        default=None, validation_alias="containerID", serialization_alias="containerID"
    )
    exit_code: int
    finished_at: Time | None = None
    message: str | None = None
    reason: str | None = None
    signal: int | None = None
    started_at: Time | None = None


class ContainerStateWaiting(BuiltinModel):
    """ContainerStateWaiting of core/v1."""

    message: str | None = None
    reason: str | None = None


class ContainerState(BuiltinModel):
    """ContainerState of core/v1."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class LinuxContainerUser(BuiltinModel):
    """LinuxContainerUser of core/v1."""

    gid: int
    supplemental_groups: list[int] = Field(default_factory=list)
    uid: int


class ContainerUser(BuiltinModel):
    """ContainerUser of core/v1."""

    linux: LinuxContainerUser | None = None


class ImageVolumeStatus(BuiltinModel):
    """ImageVolumeStatus of core/v1."""

    image_ref: str | None = None


class VolumeStatus(BuiltinModel):
    """VolumeStatus of core/v1."""

    image: ImageVolumeStatus | None = None


class VolumeMountStatus(BuiltinModel):
    """VolumeMountStatus of core/v1."""

    mount_path: str | None = None
    name: str | None = None
    read_only: bool | None = None
    recursive_read_only: str | None = None
    volume_status: VolumeStatus | None = None


class ContainerStatus(BuiltinModel):
    """ContainerStatus of core/v1."""

    allocated_resources: dict[str, str] = Field(default_factory=dict)
    allocated_resources_status: list[ResourceStatus] = Field(default_factory=list)
    container_id: str | None = Field(
        default=None, validation_alias="containerID", serialization_alias="containerID"
    )
    image: str | None = None
    image_id: str | None = Field(
        default=None, validation_alias="imageID", serialization_alias="imageID"
    )
    last_state: ContainerState | None = None
    name: str | None = None
    ready: bool | None = None
    resources: ResourceRequirements | None = None
    restart_count: int | None = None
    started: bool | None = None
    state: ContainerState | None = None
    stop_signal: str | None = None
    user: ContainerUser | None = None
    volume_mounts: list[VolumeMountStatus] = Field(default_factory=list)


class ContainerExtendedResourceRequest(BuiltinModel):
    """ContainerExtendedResourceRequest of core/v1."""

    container_name: str
    request_name: str
    resource_name: str


class PodExtendedResourceClaimStatus(BuiltinModel):
    """PodExtendedResourceClaimStatus of core/v1."""

    request_mappings: list[ContainerExtendedResourceRequest] = Field(default_factory=list)
    resource_claim_name: str | None = None


class HostIP(BuiltinModel):
    """HostIP of core/v1."""

    ip: str


class NodeAllocatableResourceClaimStatus(BuiltinModel):
    """NodeAllocatableResourceClaimStatus of core/v1."""

    containers: list[str] = Field(default_factory=list)
    resource_claim_name: str | None = None
    resources: dict[str, str] = Field(default_factory=dict)


class PodIP(BuiltinModel):
    """PodIP of core/v1."""

    ip: str


class PodResourceClaimStatus(BuiltinModel):
    """PodResourceClaimStatus of core/v1."""

    name: str | None = None
    resource_claim_name: str | None = None


class PodStatus(BuiltinModel):
    """PodStatus of core/v1."""

    allocated_resources: dict[str, str] = Field(default_factory=dict)
    conditions: list[PodCondition] = Field(default_factory=list)
    container_statuses: list[ContainerStatus] = Field(default_factory=list)
    ephemeral_container_statuses: list[ContainerStatus] = Field(default_factory=list)
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    host_ip: str | None = Field(
        default=None, validation_alias="hostIP", serialization_alias="hostIP"
    )
    host_ips: list[HostIP] = Field(
        default_factory=list, validation_alias="hostIPs", serialization_alias="hostIPs"
    )
    init_container_statuses: list[ContainerStatus] = Field(default_factory=list)
    message: str | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] = Field(
        default_factory=list
    )
    nominated_node_name: str | None = None
    observed_generation: int | None = None
    phase: str | None = None
    pod_ip: str | None = Field(default=None, validation_alias="podIP", serialization_alias="podIP")
    pod_ips: list[PodIP] = Field(
        default_factory=list, validation_alias="podIPs", serialization_alias="podIPs"
    )
    qos_class: str | None = None
    reason: str | None = None
    resize: str | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] = Field(default_factory=list)
    resources: ResourceRequirements | None = None
    start_time: Time | None = None


class Pod(BuiltinKind[PodSpec, PodStatus], group="", version="v1"):
    """Pod of core/v1."""


class PodTemplate(SpeclessKind[NoStatus], group="", version="v1"):
    """PodTemplate of core/v1."""

    template: PodTemplateSpec | None = None


class ReplicationControllerSpec(BuiltinModel):
    """ReplicationControllerSpec of core/v1."""

    min_ready_seconds: int | None = None
    replicas: int | None = None
    selector: dict[str, str] = Field(default_factory=dict)
    template: PodTemplateSpec | None = None


class ReplicationControllerCondition(BuiltinModel):
    """ReplicationControllerCondition of core/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class ReplicationControllerStatus(BuiltinModel):
    """ReplicationControllerStatus of core/v1."""

    available_replicas: int | None = None
    conditions: list[ReplicationControllerCondition] = Field(default_factory=list)
    fully_labeled_replicas: int | None = None
    observed_generation: int | None = None
    ready_replicas: int | None = None
    replicas: int | None = None


class ReplicationController(
    BuiltinKind[ReplicationControllerSpec, ReplicationControllerStatus], group="", version="v1"
):
    """ReplicationController of core/v1."""


class ScopedResourceSelectorRequirement(BuiltinModel):
    """ScopedResourceSelectorRequirement of core/v1."""

    operator: str
    scope_name: str
    values: list[str] = Field(default_factory=list)


class ScopeSelector(BuiltinModel):
    """ScopeSelector of core/v1."""

    match_expressions: list[ScopedResourceSelectorRequirement] = Field(default_factory=list)


class ResourceQuotaSpec(BuiltinModel):
    """ResourceQuotaSpec of core/v1."""

    hard: dict[str, str] = Field(default_factory=dict)
    scope_selector: ScopeSelector | None = None
    scopes: list[str] = Field(default_factory=list)


class ResourceQuotaStatus(BuiltinModel):
    """ResourceQuotaStatus of core/v1."""

    hard: dict[str, str] = Field(default_factory=dict)
    used: dict[str, str] = Field(default_factory=dict)


class ResourceQuota(BuiltinKind[ResourceQuotaSpec, ResourceQuotaStatus], group="", version="v1"):
    """ResourceQuota of core/v1."""


class Secret(SpeclessKind[NoStatus], group="", version="v1"):
    """Secret of core/v1."""

    data: dict[str, str] = Field(default_factory=dict)
    immutable: bool | None = None
    string_data: dict[str, str] = Field(default_factory=dict)
    type: str | None = None


class ServicePort(BuiltinModel):
    """ServicePort of core/v1."""

    app_protocol: str | None = None
    name: str | None = None
    node_port: int | None = None
    port: int
    protocol: str | None = None
    target_port: int | str | None = None


class ClientIPConfig(BuiltinModel):
    """ClientIPConfig of core/v1."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(BuiltinModel):
    """SessionAffinityConfig of core/v1."""

    client_ip: ClientIPConfig | None = Field(
        default=None, validation_alias="clientIP", serialization_alias="clientIP"
    )


class ServiceSpec(BuiltinModel):
    """ServiceSpec of core/v1."""

    allocate_load_balancer_node_ports: bool | None = None
    cluster_ip: str | None = Field(
        default=None, validation_alias="clusterIP", serialization_alias="clusterIP"
    )
    cluster_ips: list[str] = Field(
        default_factory=list, validation_alias="clusterIPs", serialization_alias="clusterIPs"
    )
    external_ips: list[str] = Field(
        default_factory=list, validation_alias="externalIPs", serialization_alias="externalIPs"
    )
    external_name: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    internal_traffic_policy: str | None = None
    ip_families: list[str] = Field(default_factory=list)
    ip_family_policy: str | None = None
    load_balancer_class: str | None = None
    load_balancer_ip: str | None = Field(
        default=None, validation_alias="loadBalancerIP", serialization_alias="loadBalancerIP"
    )
    load_balancer_source_ranges: list[str] = Field(default_factory=list)
    ports: list[ServicePort] = Field(default_factory=list)
    publish_not_ready_addresses: bool | None = None
    selector: dict[str, str] = Field(default_factory=dict)
    session_affinity: str | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    traffic_distribution: str | None = None
    type: str | None = None


class PortStatus(BuiltinModel):
    """PortStatus of core/v1."""

    error: str | None = None
    port: int | None = None
    protocol: str | None = None


class LoadBalancerIngress(BuiltinModel):
    """LoadBalancerIngress of core/v1."""

    hostname: str | None = None
    ip: str | None = None
    ip_mode: str | None = None
    ports: list[PortStatus] = Field(default_factory=list)


class LoadBalancerStatus(BuiltinModel):
    """LoadBalancerStatus of core/v1."""

    ingress: list[LoadBalancerIngress] = Field(default_factory=list)


class ServiceStatus(BuiltinModel):
    """ServiceStatus of core/v1."""

    conditions: list[Condition] = Field(default_factory=list)
    load_balancer: LoadBalancerStatus | None = None


class Service(BuiltinKind[ServiceSpec, ServiceStatus], group="", version="v1"):
    """Service of core/v1."""


class ServiceAccount(SpeclessKind[NoStatus], group="", version="v1"):
    """ServiceAccount of core/v1."""

    automount_service_account_token: bool | None = None
    image_pull_secrets: list[LocalObjectReference] = Field(default_factory=list)
    secrets: list[ObjectReference] = Field(default_factory=list)


class TopologySelectorLabelRequirement(BuiltinModel):
    """TopologySelectorLabelRequirement of core/v1."""

    key: str
    values: list[str]


class TopologySelectorTerm(BuiltinModel):
    """TopologySelectorTerm of core/v1."""

    match_label_expressions: list[TopologySelectorLabelRequirement] = Field(default_factory=list)
