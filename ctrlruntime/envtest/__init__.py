"""Test environments: an API server, users, a proxy with a request log and faults, simulated nodes.

This module alone is in the wheel of ctrlruntime and in the manager's image; the others come with the extra `envtest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlruntime.envtest.environment import Environment
    from ctrlruntime.envtest.users import User, administrator

__all__ = ["Environment", "User", "administrator"]


def __getattr__(name: str) -> object:
    """Load on first use: the proxy's process has no need of the API server's schemas."""
    if name == "Environment":
        try:
            from ctrlruntime.envtest.environment import Environment
        except ModuleNotFoundError as error:
            ours = (error.name or "").startswith("ctrlruntime")
            if ours and error.name != "ctrlruntime.envtest.environment":
                raise
            raise ModuleNotFoundError(
                f"the test environment needs {error.name}: pip install 'ctrlruntime[envtest]'",
                name=error.name,
            ) from error
        return Environment
    if name in ("User", "administrator"):
        from ctrlruntime.envtest import users

        return getattr(users, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
