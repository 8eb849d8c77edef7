"""Describes what another server answered by type and size, for texts that may be read by more people than the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized


def describe_value(value: object) -> str:
    """Return the type and size of a value from outside, and nothing of its content."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return _sized("a string of", value, "character")
        case bytes():
            return _sized("", value, "byte").lstrip()
        case Mapping():
            return _sized("a mapping with", value, "key")
        case Sequence():
            return _sized("a list of", value, "value")
        case _:
            return f"of type {type(value).__name__}"


def describe_error(error: BaseException) -> str:
    """Return what the operating system reports of a failed connection or read, or else the type of the error.

    Texts of other errors may repeat what a server sent.
    """
    reason = getattr(error, "reason", None)
    cause = reason if isinstance(reason, OSError) else error
    if isinstance(cause, OSError) and cause.errno and cause.strerror:
        return cause.strerror
    return type(cause).__name__


def _sized(before: str, value: Sized, unit: str) -> str:
    number = len(value)
    return f"{before} {number} {unit}{'' if number == 1 else 's'}"
