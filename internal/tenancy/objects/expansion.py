"""From an entry of a template to the resources that it is for one tenant: `when` and `forEach`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from apis.tenancy import ForEach, TResource
from internal.tenancy.objects.variables import Variables
from internal.tenancy.rendering import Manifest, Renderer, RenderError

MOST_ELEMENTS: Final = 100
"""Elements that one list may have."""
_ELEMENT: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_NULLS: Final = frozenset({"null", "none", "nil"})
"""Texts by which languages write that there is no value."""
_WORDS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Expanded:
    """A resource of a tenant, with the variables that its templates read."""

    resource: TResource
    variables: Variables


async def expand(
    resource: TResource, variables: Variables, renderer: Renderer
) -> tuple[Expanded, ...]:
    """Return the resources of an entry: none, one, or one for each element. Raises RenderError.

    Whether they exist, and the elements, show in names and statuses, so no sensitive variable is defined here.
    """
    if resource.for_each is None:
        found: tuple[Expanded, ...] = (Expanded(resource, variables),)
    else:
        found = await _elements(resource, resource.for_each, variables, renderer)
    if resource.when is None:
        return found
    wanted = [await _is_wanted(resource.when, each.variables, renderer) for each in found]
    return tuple(each for each, yes in zip(found, wanted, strict=True) if yes)


async def _is_wanted(text: str, variables: Variables, renderer: Renderer) -> bool:
    value = (await render_exactly({"when": text}, variables, renderer))["when"]
    if isinstance(value, str):
        value = _WORDS.get(value.strip().lower(), value)
    if isinstance(value, bool):
        return value
    raise RenderError("when", "it has to come to true or false")


async def _elements(
    resource: TResource, each: ForEach, variables: Variables, renderer: Renderer
) -> tuple[Expanded, ...]:
    shown = await render_exactly({"forEach": {"items": each.items}}, variables, renderer)
    value = shown["forEach"]["items"]
    made: dict[str, Expanded] = {}
    for element in _list(value):
        name = _name(element, each.key)
        if name in made:
            raise RenderError("forEach.items", f"the element {name!r} is there twice")
        if len(made) == MOST_ELEMENTS:
            raise RenderError("forEach.items", f"it has more than {MOST_ELEMENTS} elements")
        one = resource.model_copy(update={"id": f"{resource.id}[{name}]"})
        values = {**variables.values, each.variable: _text(element)}
        sensitive = variables.sensitive - {each.variable}
        made[name] = Expanded(one, replace(variables, values=values, sensitive=sensitive))
    return tuple(made[name] for name in sorted(made))


async def render_shown(
    part: Manifest, variables: Variables, renderer: Renderer, lost: list[str] | None = None
) -> Manifest:
    """Return a part of an entry that everybody sees, rendered without the sensitive variables. Raises RenderError."""
    try:
        return await renderer.render(part, variables.public, lost)
    except RenderError as error:
        used = sorted(name for name in variables.sensitive if repr(name) in error.message)
        if not used:
            raise
        message = f"it uses the sensitive variable {used[0]!r}, whose value would be seen"
        raise RenderError(error.path, message) from None


async def render_exactly(part: Manifest, variables: Variables, renderer: Renderer) -> Manifest:
    """Render a part of an entry that decides which objects exist. Raises RenderError.

    A conversion that loses something of a value is an error here: objects would go for what was not read.
    """
    lost: list[str] = []
    shown = await render_shown(part, variables, renderer, lost)
    if lost:
        path, _, what = lost[0].partition(": ")
        raise RenderError(path, f"{what}; no object is made or removed for such a value")
    return shown


def _list(value: object) -> Iterable[Any]:
    """Return the elements of a rendered list. Raises RenderError."""
    if isinstance(value, str):
        text = value.strip()
        if not text.strip(
            ", "
        ):  # NULL looks the same, and nothing is removed for a value that is missing
            raise RenderError("forEach.items", "it is empty; an empty list is []")
        try:
            value = None if text.lower() in _NULLS else orjson.loads(text)
        except orjson.JSONDecodeError as error:
            if text.startswith("["):
                message = "it begins as a JSON array and is none"
                raise RenderError("forEach.items", message) from error
            return _between_commas(text)
    if isinstance(value, list):
        return value
    raise RenderError(
        "forEach.items",
        "it has to come to a JSON array or a text with commas, not to null or a single JSON value; "
        "a list of one number is [1]",
    )


def _between_commas(text: str) -> Iterator[str]:
    return (part.strip() for part in text.split(",") if part.strip())


def _name(element: object, key: str) -> str:
    """Return what tells an element apart. Raises RenderError."""
    named = element
    if isinstance(element, Mapping):
        if key not in element:
            raise RenderError("forEach.items", f"an element has no field {key!r}")
        named = element[key]
    if isinstance(named, bool) or not isinstance(named, (str, int)):
        raise RenderError(
            "forEach.items", "elements have to be texts, whole numbers, or objects that are named"
        )
    name = str(named)
    if not _ELEMENT.fullmatch(name):
        raise RenderError(
            "forEach.items",
            "an element may have letters, digits, '.', '_' and '-' only, 63 at most, and starts and "
            "ends with a letter or digit",
        )
    return name


def _text(element: object) -> str:
    return element if isinstance(element, str) else orjson.dumps(element).decode()
