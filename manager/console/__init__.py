"""The console: read-only pages of what a manager's cache has, for people."""
