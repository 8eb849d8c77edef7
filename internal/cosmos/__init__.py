"""The cosmos system: stateful nodes by builder, diff and control."""
