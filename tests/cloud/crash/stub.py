"""A task that takes a moment and records when it began and ended. Imports nothing of ours."""

import json
import os
import time
from pathlib import Path
from typing import Any


def note(word: str, given: dict[str, Any]) -> None:
    """One line, written in one piece."""
    line = {
        "word": word,
        "task": given["task"],
        "run": given["run_id"],
        "inputs": given["inputs_version"],
        "operation": given["operation"],
        "attempt": given["attempt"],
        "instance": given["instance"],
        "decision": (given["plan"] or {}).get("decision"),
    }
    record = os.open(os.environ["STUB_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(record, json.dumps(line).encode() + b"\n")
    os.close(record)


def waits(given: dict[str, Any]) -> bool:
    """Whether the plan of a run has to be approved first."""
    decision = (given["plan"] or {}).get("decision")
    return bool(given["approval"] == "Manual" and decision != "Approved")


def main() -> None:
    """Succeed."""
    with Path(os.environ["TASK_INPUT"]).open() as file:
        given = json.load(file)
    note("began", given)
    time.sleep(float(os.environ.get("STUB_SECONDS", "0.05")))
    outputs = {"zone": "us-central1-f"} if given["task"] == "terraform" else {}
    if given["task"] == "terraform" and given["operation"] == "Apply" and waits(given):
        plan = {"content": given["inputs_version"], "add": 1}
        outputs = {"plan:pending": json.dumps(plan)}
    report = {"state": "Succeeded", "message": f"{given['task']} done", "outputs": outputs}
    note("ended", given)
    with Path(os.environ["TASK_RESULT"]).open("w") as file:
        json.dump(report, file)


main()
