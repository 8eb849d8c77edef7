"""What the process is doing, for people who ask."""

from __future__ import annotations

import asyncio
import io

from aiohttp import web


def application() -> web.Application:
    """``/debug/tasks`` lists the tasks of the loop, ``/debug/stacks`` where each of them waits."""
    app = web.Application()
    app.add_routes([web.get("/debug/tasks", _tasks), web.get("/debug/stacks", _stacks)])
    return app


async def _tasks(_request: web.Request) -> web.Response:
    names = sorted(task.get_name() for task in asyncio.all_tasks())
    return web.Response(text="\n".join([f"{len(names)} tasks", *names, ""]))


async def _stacks(_request: web.Request) -> web.Response:
    out = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        out.write(f"== {task.get_name()}\n")
        task.print_stack(file=out)
    return web.Response(text=out.getvalue())
