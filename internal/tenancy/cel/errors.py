"""What is wrong with an expression."""


class CelError(ValueError):
    """An expression that cannot be compiled or evaluated. The message has no value of the object."""
