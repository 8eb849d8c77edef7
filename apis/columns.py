"""Columns of `kubectl get` that kinds of several groups share."""

from ctrlruntime.api import PrintColumn

AGE = PrintColumn("Age", ".metadata.creationTimestamp", "date")


def condition_column(
    title: str, condition: str, field: str = "status", *, priority: int = 0
) -> PrintColumn:
    """Return the column of a field of one condition; with `-o wide` alone if its priority is above 0."""
    path = f'.status.conditions[?(@.type=="{condition}")].{field}'
    return PrintColumn(title, path, "string", priority=priority)


def count_columns(**fields: str) -> tuple[PrintColumn, ...]:
    """Return a column for each number of the status: its title, and the name of the field."""
    return tuple(PrintColumn(title, f".status.{name}", "integer") for title, name in fields.items())
