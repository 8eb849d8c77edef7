"""The controllers of each system, put together."""
