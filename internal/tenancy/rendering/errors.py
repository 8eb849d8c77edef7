"""What rendering may raise, and the rule that no message ever quotes a value."""

from __future__ import annotations


class RenderError(Exception):
    """A manifest could not be rendered.

    `path` names the string at fault (`spec.template.spec.containers[0].image`), `message` is what
    is wrong with it. Neither contains the value of any variable. `transient` is true when the same
    input may succeed later: the worker process was lost or overran on a busy machine.
    """

    def __init__(self, path: str, message: str, *, transient: bool = False) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message
        self.transient = transient

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class TemplateError(Exception):
    """One template string is wrong. The message is built from the template's text alone."""


class UnsupportedConstruct(TemplateError):
    """The template uses a construct that is not part of the template language."""


class LimitExceeded(TemplateError):
    """The template needs more steps, work or output than it is given."""
