"""What the next sync would do, for `manager plan` and previews."""
