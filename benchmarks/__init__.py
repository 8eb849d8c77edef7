"""Counts and figures; `make bench...` runs them."""
