"""Runs as Google Cloud Run jobs."""

from .api import CloudAPI, CloudError, CloudRunOptions, TokenSource, metadata_token
from .logs import LOGGING_URL, CloudRunLogs, LogCursor, project_of
from .provider import CloudRunRuns

__all__ = [
    "LOGGING_URL",
    "CloudAPI",
    "CloudError",
    "CloudRunLogs",
    "CloudRunOptions",
    "CloudRunRuns",
    "LogCursor",
    "TokenSource",
    "metadata_token",
    "project_of",
]
