"""The fleet system: one hub, many data planes."""
