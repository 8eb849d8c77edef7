"""Template strings: compiled once, kept in a bounded cache, rendered exactly once."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from jinja2 import Template, TemplateSyntaxError, Undefined, UndefinedError
from jinja2.exceptions import SecurityError, TemplateRuntimeError

from ctrlruntime.json import Json
from internal.tenancy.rendering.errors import LimitExceeded, TemplateError
from internal.tenancy.rendering.functions import COSTS
from internal.tenancy.rendering.golang import ROOT, actions_length, translate
from internal.tenancy.rendering.limits import EVALUATION_COST, INLINE, KIB, Meter
from internal.tenancy.rendering.sandbox import Sandbox
from internal.tenancy.rendering.syntax import RESULT, examine
from internal.tenancy.rendering.values import checked_text, to_plain

LONGEST_TEMPLATE = 1024 * KIB
"""Longest template string, in characters."""

LONGEST_INLINE_TEXT = 64 * KIB
LONGEST_INLINE_ACTIONS = 1 * KIB
"""What is longer, the `{{ … }}` taken together, is neither compiled nor run on the event loop: it
would take more than 30 ms to compile."""

CACHED_TEMPLATES = 4096

_DEFINES = re.compile(r"\{\{-?\s*(?:define|block)\b")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A template ready to run. `variables` are the names it reads, `optional` those with a default."""

    source: str
    program: Template
    native: bool
    worker: bool
    variables: frozenset[str]
    optional: frozenset[str]
    mutates: bool
    nodes: int
    """Size of its tree."""


def is_template(text: str) -> bool:
    """Whether the text has anything to render."""
    return "{{" in text or "{%" in text


def is_large(text: str) -> bool:
    """Whether compiling the text would take the event loop too long, or may: it has templates in it."""
    if _DEFINES.search(text):
        return True
    if len(text) <= LONGEST_INLINE_ACTIONS:
        return False
    if len(text) > LONGEST_INLINE_TEXT:
        return True
    return actions_length(text) > LONGEST_INLINE_ACTIONS


class Templates:
    """Compiles and runs template strings. Not shared between threads: one meter counts one rendering."""

    def __init__(self, *, cached: int = CACHED_TEMPLATES) -> None:
        self.meter = Meter(INLINE)
        self._sandbox = Sandbox(self.meter)
        self._cached = cached
        self._compiled: OrderedDict[str, Compiled | TemplateError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._compiled)

    def known(self, text: str) -> bool:
        """Whether the text is compiled already."""
        return text in self._compiled

    def compile(self, text: str) -> Compiled:
        """Return the compiled template. Raises TemplateError; errors are cached as well."""
        found = self._compiled.get(text)
        if found is None:
            found = self._compile(text)
            self._compiled[text] = found
            while len(self._compiled) > self._cached:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(text)
        if isinstance(found, TemplateError):
            raise type(found)(*found.args)
        return found

    def render(self, text: str, variables: Mapping[str, Any]) -> Json:
        """Return the text rendered with `variables`, which `namespace` has prepared.

        A template that is one expression yields that expression's value as plain JSON, any other a
        string. Raises TemplateError, whose message quotes no value.
        """
        compiled = self.compile(text)
        try:
            return self._run(compiled, variables)
        except UndefinedError as error:
            raise TemplateError(_undefined_message(error, compiled)) from None
        except SecurityError:
            message = "it uses an attribute or a call that templates have no access to"
            raise TemplateError(message) from None
        except RecursionError:
            raise LimitExceeded("the template is nested too deeply") from None
        except MemoryError:
            raise LimitExceeded("the template needs too much memory") from None
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise TemplateError(f"an operation does not fit its values ({_kind(error)})") from None
        except TemplateRuntimeError:
            raise TemplateError("the template failed at run time") from None

    def _run(self, compiled: Compiled, variables: Mapping[str, Any]) -> Json:
        program = compiled.program
        self.meter.work(compiled.nodes * EVALUATION_COST)
        if compiled.mutates:
            self.meter.weigh(variables[ROOT], COSTS["deepCopy"])
            # What it changes is its own: no other template of the manifest sees it.
            variables = namespace(deepcopy(variables[ROOT]))
        context = program.new_context(variables, shared=True)  # type: ignore[arg-type]
        output = self.meter.output
        chunks: list[str] = []
        for chunk in program.root_render_func(context):
            output(len(chunk))
            chunks.append(chunk)
        if not compiled.native:
            return checked_text("".join(chunks))
        value = context.vars[RESULT]
        if isinstance(value, str):
            output(len(value))
            return checked_text(value)
        if isinstance(value, Undefined):
            value._fail_with_undefined_error()
        self.meter.weigh(value)
        return to_plain(value)

    def _compile(self, text: str) -> Compiled | TemplateError:
        if len(text) > LONGEST_TEMPLATE:
            return TemplateError(f"the template is longer than {LONGEST_TEMPLATE} characters")
        try:
            syntax = examine(self._sandbox.parse(translate(text)))
            code = self._sandbox.compile(syntax.tree, "template", "template")
            program = Template.from_code(self._sandbox, code, {})
        except TemplateError as error:
            return error
        except TemplateSyntaxError as error:
            return TemplateError(f"syntax error in line {error.lineno}: {error.message}")
        except (RecursionError, MemoryError):
            return LimitExceeded("the template is nested too deeply")
        except (SyntaxError, ValueError, OverflowError, AssertionError):
            return TemplateError("the template cannot be compiled")
        return Compiled(
            text,
            program,
            syntax.native,
            syntax.worker,
            syntax.variables,
            syntax.optional,
            syntax.mutates,
            syntax.nodes,
        )


def namespace(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables as templates see them: by name, and all in one mapping for the Go spelling."""
    return {**variables, ROOT: dict(variables)}


def _undefined_message(error: UndefinedError, compiled: Compiled) -> str:
    """Name what is missing, but only by a name that stands in the template itself."""
    words = [word for word in (error.message or "").split("'") if word]
    for word in reversed(words):
        if word in compiled.variables:
            return (
                f"the variable {word!r} is not defined; map it in the registry or give it a "
                'default: {{ %s | default("…") }}' % word
            )
    return "a value it uses is not defined"


def _kind(error: Exception) -> str:
    return type(error).__name__
