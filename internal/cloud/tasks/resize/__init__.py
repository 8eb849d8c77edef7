"""Task `resize`: claims of an instance grow as they fill."""

from .task import ResizeTask

__all__ = ["ResizeTask"]
