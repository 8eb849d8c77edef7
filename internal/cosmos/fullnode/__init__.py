"""A set of nodes: its builders, its controls, and the order they go in."""
