"""A loopback proxy in front of an API server: the request log and all faults.

`Proxy` runs in-process; `python -m ctrlruntime.envtest.proxy` is a process of its own, which
`ProxyControl` steers with the same calls.
"""

from ctrlruntime.envtest.proxy.control import ControlServer, ProxyControl
from ctrlruntime.envtest.proxy.log import LEASES, Counts, LogEntry, Mark, RequestLog, Row
from ctrlruntime.envtest.proxy.proxy import Proxy, ProxyOptions, server_context
from ctrlruntime.envtest.proxy.requests import READS, WRITES, RequestInfo
from ctrlruntime.envtest.proxy.rules import (
    Action,
    ActiveRule,
    Cut,
    CutWatch,
    Delay,
    DelayEvents,
    DropEvents,
    Fail,
    GoneWatch,
    Kill,
    LoseReply,
    Match,
    Rule,
    RuleState,
    SilenceWatch,
    StaleReads,
)

__all__ = [
    "LEASES",
    "READS",
    "WRITES",
    "Action",
    "ActiveRule",
    "ControlServer",
    "Counts",
    "Cut",
    "CutWatch",
    "Delay",
    "DelayEvents",
    "DropEvents",
    "Fail",
    "GoneWatch",
    "Kill",
    "LogEntry",
    "LoseReply",
    "Mark",
    "Match",
    "Proxy",
    "ProxyControl",
    "ProxyOptions",
    "RequestInfo",
    "RequestLog",
    "Row",
    "Rule",
    "RuleState",
    "SilenceWatch",
    "StaleReads",
    "server_context",
]
