"""One execution of a job: its only task is a process."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ctrlruntime.envtest.nodes.containers import Command, expand, relocated
from ctrlruntime.envtest.process import ChildProcess

from .rules import Refused
from .storage import Storage

_GRACE = 10.0
"""https://docs.cloud.google.com/run/docs/container-contract: SIGTERM, 10 seconds later SIGKILL."""


class Execution:
    """`PENDING`, then running, then complete: its counts tell, as the REST page of executions says."""

    def __init__(self, name: str, job: dict[str, Any], storage: Storage, log: Path) -> None:
        self.name = name
        self._task = job["template"]["template"]
        self._labels = job["template"].get("labels") or {}
        self._storage = storage
        self._log = log
        self._child: ChildProcess | None = None
        self._cancelled = asyncio.Event()
        self._exit: int | None = None
        self._times = {"createTime": now()}
        self.life = asyncio.create_task(self._live())

    def view(self) -> dict[str, Any]:
        ended = "completionTime" in self._times
        succeeded = ended and self._exit == 0
        cancelled = ended and not succeeded and self._cancelled.is_set()
        counts = {
            "runningCount": int("startTime" in self._times and not ended),
            "succeededCount": int(succeeded),
            "cancelledCount": int(cancelled),
            "failedCount": int(ended and not succeeded and not cancelled),
        }
        seen = {
            "name": self.name,
            "labels": self._labels,
            "taskCount": 1,
            "template": self._task,
            "etag": '"1"',
        }
        logs = {"logUri": self._log_uri()}
        return seen | self._times | logs | {key: count for key, count in counts.items() if count}

    def _log_uri(self) -> str:
        """The address of the log, as executions of the real API have it."""
        _, project, _, location, _, job, _, execution = self.name.split("/")
        wanted = [
            'resource.type="cloud_run_job"',
            f'resource.labels.job_name="{job}"',
            f'resource.labels.location="{location}"',
            f'labels."run.googleapis.com/execution_name"="{execution}"',
        ]
        query = urlencode({"project": project, "advancedFilter": "\n".join(wanted)})
        return f"https://console.cloud.google.com/logs/viewer?{query}"

    def task(self) -> dict[str, Any]:
        """The execution's task, with the result of its only attempt."""
        seen: dict[str, Any] = {"name": f"{self.name}/tasks/{self.name.rpartition('/')[2]}-task0"}
        if "completionTime" in self._times:
            status = {} if self._exit == 0 else {"code": 2, "message": "The task did not succeed."}
            result: dict[str, Any] = {"status": status}
            if self._exit:
                result["exitCode"] = self._exit
            seen["lastAttemptResult"] = result
        return seen

    def cancel(self) -> None:
        if "completionTime" in self._times:
            raise Refused(400, "FAILED_PRECONDITION", "The execution has completed already.")
        self._cancelled.set()

    async def end(self) -> None:
        """For the end of a test."""
        self._cancelled.set()
        if self._child is not None:
            self._child.kill()
        await self.life

    async def _live(self) -> None:
        self._child = await self._start()
        self._times["startTime"] = now()
        over = asyncio.create_task(self._child.wait())
        told = asyncio.create_task(self._cancelled.wait())
        timeout = float(self._task["timeout"][:-1])
        done, _ = await asyncio.wait({over, told}, timeout=timeout, return_when="FIRST_COMPLETED")
        if over not in done:
            code = await self._child.stop(grace=_GRACE)
            self._exit = 0 if code == 0 else None
        else:
            code = over.result()
            self._exit = code if code >= 0 else 128 - code
        self._child.kill()
        told.cancel()
        await over
        self._times["completionTime"] = now()

    async def _start(self) -> ChildProcess:
        (container,) = self._task["containers"]
        env = {item["name"]: expand(item["value"], {}) for item in container["env"]}
        volumes = {volume["name"]: volume for volume in self._task["volumes"]}
        places = {
            mount["mountPath"]: str(self._storage.bucket(volumes[mount["name"]]["gcs"]["bucket"]))
            for mount in container["volumeMounts"]
        }
        words = (*container.get("command", []), *container.get("args", []))
        command = relocated(Command(args=words, env=env), places)
        return await ChildProcess.start(
            command.args,
            log=self._log,
            env={"PATH": os.environ["PATH"], **command.env},
            ready=False,
        )


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
