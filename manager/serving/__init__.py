"""A manager that runs: its options, its connection, its systems, until it is stopped."""
