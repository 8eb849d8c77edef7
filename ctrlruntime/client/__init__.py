"""Reads and writes of an API server: configuration, transport, typed errors, all verbs."""
