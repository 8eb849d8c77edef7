"""What runs beside a node, and before it, in its Pod."""
