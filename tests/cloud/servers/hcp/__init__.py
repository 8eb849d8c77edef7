"""A server that speaks the API of HCP Terraform, and rejects what the real one rejects.

Each rule names the page under https://developer.hashicorp.com/terraform/cloud-docs/api-docs that it
comes from. Time passes by a clock that is given; runs get on by one state each time they are asked for.

What no page says, and how it is here:

- The code for a wrong content type: 415, as JSON:API has it.
- What a run that is made in a workspace which somebody locked gets: nothing is said of it on the page
  of runs; it is queued, or with `lock_refuses_runs` refused with 409. The task copes with both.
- Since when a workspace is locked: the API does not show it.
- The header with which a 429 says how long to wait: `X-RateLimit-Reset`, in seconds, as the public Go
  client reads it.
- What a second upload to a signed address gets: 409 here.
- The code for a document without `data.type`, for other endpoints than those of runs: 422, as for runs.
- When `is-confirmable` is true beside cost estimates and policies: once nothing else is due.
"""

from .clock import Clock
from .fake_service import FakeState, Run, Workspace
from .faults import Faults
from .server import HCPServer

__all__ = ["Clock", "FakeState", "Faults", "HCPServer", "Run", "Workspace"]
