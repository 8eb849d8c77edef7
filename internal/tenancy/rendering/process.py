"""The worker process: reads jobs from standard input, renders, answers on standard output.

A frame is four bytes of length, big-endian, and JSON. A job that overruns ends the process by a timer of the
processor time that it uses: a busy machine overruns nothing, and no loop outlives the parent.
"""

from __future__ import annotations

import resource
import signal
import sys
from typing import Any, BinaryIO

import orjson

from internal.tenancy.rendering.checking import check
from internal.tenancy.rendering.errors import RenderError
from internal.tenancy.rendering.limits import MIB, WORKER
from internal.tenancy.rendering.manifests import render
from internal.tenancy.rendering.templates import Templates, namespace

MOST_MEMORY = 768 * MIB
LENGTH_BYTES = 4


def frame(message: object) -> bytes:
    """Return the message as it goes over the pipe."""
    body = orjson.dumps(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def main(deadline: float) -> None:
    """Serve jobs until standard input ends. `deadline` is in seconds of the processor for each job."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    templates = Templates()
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    _send(outgoing, {"ready": True})
    while (job := _receive(incoming)) is not None:
        signal.setitimer(signal.ITIMER_PROF, deadline)
        answer = perform(templates, job)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(outgoing, answer)


def perform(templates: Templates, job: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one job: a rendered manifest, a report, or an error with its path."""
    try:
        if job["task"] == "check":
            return {"report": check(templates, job["manifest"]).to_json()}
        templates.meter.begin(WORKER)
        manifest = render(templates, job["manifest"], namespace(job["variables"]))
        return {"manifest": manifest, "lost": templates.meter.lost}
    except RenderError as error:
        return {"path": error.path, "message": error.message}
    except (MemoryError, RecursionError):
        return {"path": "", "message": "the templates need too much memory"}


def _receive(stream: BinaryIO) -> dict[str, Any] | None:
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    job: dict[str, Any] = orjson.loads(stream.read(int.from_bytes(head, "big")))
    return job


def _send(stream: BinaryIO, answer: dict[str, Any]) -> None:
    stream.write(frame(answer))
    stream.flush()
