"""The subresources: one wiring module each."""
