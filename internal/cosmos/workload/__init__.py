"""Numbered Pods, each with a claim of its own: plan, rollout budget, control, claims, checksums of configuration.

They stand on `ctrlruntime.resources`: builder, diff and control.
"""
