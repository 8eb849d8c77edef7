"""Patches and server-side apply: pure functions on plain manifests, no I/O."""
