"""Task `kubernetes`: renders a bundle, applies it to the instance's cluster, prunes what left it."""

from .task import KubernetesTask

__all__ = ["KubernetesTask"]
