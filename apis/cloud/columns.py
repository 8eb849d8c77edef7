"""Columns of `kubectl get` that an Instance and its subresources share."""

from apis.columns import AGE, condition_column
from ctrlruntime.api import PrintColumn


def progress_columns(
    *, version: str, title: str = "Version", task: str = ".status.run.runID"
) -> tuple[PrintColumn, ...]:
    """Return the columns. `version`, `task`: JSON paths of what runs, and of its run; `title`: what that is, of a kind without versions."""
    return (
        condition_column("Ready", "Ready"),
        PrintColumn("Phase", ".status.phase", "string"),
        PrintColumn(title, version, "string"),
        PrintColumn("Task", task, "string"),
        PrintColumn("Waiting", ".status.waiting.reason", "string"),
        AGE,
        PrintColumn("Message", ".status.message", "string"),
    )
