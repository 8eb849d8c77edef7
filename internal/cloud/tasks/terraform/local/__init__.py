"""Terraform run by a binary beside the task: `terraform`, or OpenTofu's `tofu`."""
