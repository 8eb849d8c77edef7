"""The manager: an operator built on ctrlruntime."""
