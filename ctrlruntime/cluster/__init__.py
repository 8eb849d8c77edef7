"""Clusters: the clients, cache and recorder of one API server each, and providers that engage them."""

from ctrlruntime.cluster.cluster import Cluster, ClusterDeps, ClusterOptions
from ctrlruntime.cluster.file_provider import FileProvider
from ctrlruntime.cluster.kubeconfig_provider import KubeconfigProvider
from ctrlruntime.cluster.provider import Engager, Provider
from ctrlruntime.cluster.selection import ClusterNotFound, ClusterRef, ClusterSet

__all__ = [
    "Cluster",
    "ClusterDeps",
    "ClusterNotFound",
    "ClusterOptions",
    "ClusterRef",
    "ClusterSet",
    "Engager",
    "FileProvider",
    "KubeconfigProvider",
    "Provider",
]
