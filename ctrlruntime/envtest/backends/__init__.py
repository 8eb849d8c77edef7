"""What a test environment can run on."""

from ctrlruntime.envtest.backends.apiextensions import ApiextensionsBackend
from ctrlruntime.envtest.backends.backend import (
    Backend,
    BackendOptions,
    SignsClients,
    TakesUsers,
    Version,
)
from ctrlruntime.envtest.backends.embedded import EmbeddedBackend, EmbeddedProcessBackend
from ctrlruntime.envtest.backends.existing import ExistingBackend, existing
from ctrlruntime.envtest.backends.kube_apiserver import KubeApiserverBackend

__all__ = [
    "ApiextensionsBackend",
    "Backend",
    "BackendOptions",
    "EmbeddedBackend",
    "EmbeddedProcessBackend",
    "ExistingBackend",
    "KubeApiserverBackend",
    "SignsClients",
    "TakesUsers",
    "Version",
    "existing",
]
