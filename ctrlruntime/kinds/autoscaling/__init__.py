"""Typed kinds of the group autoscaling."""
