"""Schemas of built-in and custom kinds: defaulting, pruning, validation, strict decoding."""
