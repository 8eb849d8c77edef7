"""Scale mode: one hub and data planes with a stack each, as processes."""
