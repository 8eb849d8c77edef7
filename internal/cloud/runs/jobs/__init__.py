"""Runs as Kubernetes Jobs."""

from .options import JobOptions
from .provider import JobRuns

__all__ = ["JobOptions", "JobRuns"]
