"""Errors of JSONPath expressions in templates, apart from the parser, which few templates need."""


class IgnoreFieldError(ValueError):
    """An entry of `ignoreFields` is not a JSONPath, or not one that is supported."""


class ReadyWhenError(ValueError):
    """A path of `readyWhen` is not a JSONPath, or not one that is supported."""
