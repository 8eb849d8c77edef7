"""Jobs that run regularly on a disk made from a copy."""
