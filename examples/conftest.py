"""Fixtures of the test environment, for every example."""

pytest_plugins = ["ctrlruntime.envtest.fixtures"]
