"""Test environments: an API server, users, a proxy with a request log and faults, simulated nodes."""

from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.users import User, administrator

__all__ = ["Environment", "User", "administrator"]
