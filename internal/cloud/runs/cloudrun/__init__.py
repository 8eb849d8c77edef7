"""Runs as Google Cloud Run jobs."""

from .api import CloudError, TokenSource, metadata_token
from .options import CloudRunOptions
from .provider import CloudRunRuns

__all__ = ["CloudError", "CloudRunOptions", "CloudRunRuns", "TokenSource", "metadata_token"]
