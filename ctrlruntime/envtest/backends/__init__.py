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
from ctrlruntime.envtest.backends.existing import ConfiguredBackend, existing
from ctrlruntime.envtest.backends.kube_apiserver import KubeApiserverBackend

__all__ = [
    "ApiextensionsBackend",
    "Backend",
    "BackendOptions",
    "ConfiguredBackend",
    "EmbeddedBackend",
    "EmbeddedProcessBackend",
    "KubeApiserverBackend",
    "SignsClients",
    "TakesUsers",
    "Version",
    "existing",
]
