"""What the process is doing, for people who ask."""

from __future__ import annotations

import asyncio
import io

from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.manager.http_routes import Routes


def diagnostic_routes() -> Routes:
    """``/debug/tasks`` lists the tasks of the loop, ``/debug/stacks`` where each of them waits."""
    routes = Routes()
    routes.add("/debug/tasks", _tasks)
    routes.add("/debug/stacks", _stacks)
    return routes


async def _tasks(_request: ServerRequest) -> ServerResponse:
    names = sorted(task.get_name() for task in asyncio.all_tasks())
    return ServerResponse.text("\n".join([f"{len(names)} tasks", *names, ""]))


async def _stacks(_request: ServerRequest) -> ServerResponse:
    out = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        out.write(f"== {task.get_name()}\n")
        task.print_stack(file=out)
    return ServerResponse.text(out.getvalue())
