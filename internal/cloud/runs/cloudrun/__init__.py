"""Runs as Google Cloud Run jobs."""

from .api import CloudError, CloudRunOptions, TokenSource, metadata_token
from .provider import CloudRunRuns

__all__ = ["CloudError", "CloudRunOptions", "CloudRunRuns", "TokenSource", "metadata_token"]
