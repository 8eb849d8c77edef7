"""The command ``ctrlruntime``: projects with controllers, made, extended and run (extra ``cli``)."""

from .program import main

__all__ = ["main"]
