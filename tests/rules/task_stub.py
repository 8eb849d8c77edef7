"""A task that succeeds at once. Of the infrastructure one output must not be seen."""

import json
import os
from pathlib import Path
from typing import Any

from internal.cloud.runs.sealing import seal


def main() -> None:
    """Succeed."""
    given = json.loads(Path(os.environ["TASK_INPUT"]).read_text())
    report: dict[str, Any] = {"state": "Succeeded", "message": f"{given['task']} done"}
    if given["task"] == "terraform":
        key = Path(os.environ["TASK_SEAL_KEY"]).read_text()
        report["outputs"] = {"zone": "us-central1-f"}
        report["sealed"] = seal({"password": "secret"}, key, given["run_id"])
    Path(os.environ["TASK_RESULT"]).write_text(json.dumps(report))


main()
