"""Group fleet.ctrlruntime.dev: one hub, and a stack of controllers for each data plane."""

from .common import GROUP, VERSION

__all__ = ["GROUP", "VERSION"]
