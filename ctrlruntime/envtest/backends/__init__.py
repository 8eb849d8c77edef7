"""What a test environment can run on."""

from ctrlruntime.envtest.backends.backend import Backend, BackendOptions
from ctrlruntime.envtest.backends.embedded import EmbeddedBackend, EmbeddedProcessBackend

__all__ = ["Backend", "BackendOptions", "EmbeddedBackend", "EmbeddedProcessBackend"]
