"""Runs as Kubernetes Jobs."""

from .manifest import JobOptions
from .provider import JobRuns

__all__ = ["JobOptions", "JobRuns"]
