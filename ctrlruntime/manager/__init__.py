"""The manager: starts and stops everything of a process in order, and serves what it tells."""

from ctrlruntime.manager.election import ElectionOptions
from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.manager.leadership import LeaderElectionLost
from ctrlruntime.manager.logs import configure as configure_logs
from ctrlruntime.manager.manager import CacheRunnable, GracePeriodExceeded, Manager
from ctrlruntime.manager.options import ManagerOptions
from ctrlruntime.manager.runnables import FuncRunnable, Group, Runnable, StoppingError
from ctrlruntime.manager.runner import run
from ctrlruntime.manager.running import StoppedWhileStarting
from ctrlruntime.manager.serving import MetricsServing
from ctrlruntime.manager.watchdog import GCOptions
from ctrlruntime.webhook.options import WebhookOptions

__all__ = [
    "CacheRunnable",
    "ElectionOptions",
    "FuncRunnable",
    "GCOptions",
    "GracePeriodExceeded",
    "Group",
    "LeaderElectionLost",
    "Manager",
    "ManagerOptions",
    "MetricsServing",
    "Runnable",
    "ServerRequest",
    "ServerResponse",
    "StoppedWhileStarting",
    "StoppingError",
    "WebhookOptions",
    "configure_logs",
    "run",
]
