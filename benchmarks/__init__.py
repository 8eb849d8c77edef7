"""Counts and figures; `make bench...` runs them."""

import os

from ctrlruntime.outbound_addresses import ALLOWED

os.environ.setdefault(
    ALLOWED, "127.0.0.0/8,::1/128"
)  # databases, nodes and clusters are on this machine
