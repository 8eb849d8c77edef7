"""What can go wrong when manifests are made from code."""

from __future__ import annotations

__all__ = ["DeployWarning", "SchemaError", "SchemaWarning"]


class SchemaError(TypeError):
    """A type that has no structural schema; the message names the field and the way out."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class SchemaWarning(UserWarning):
    """A schema that an API server may refuse or read differently from Python."""


class DeployWarning(UserWarning):
    """Manifests of a program that lack what it needs, because the code does not declare it."""
