"""Manifests in files that a command is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO, TypeVar

import click
from pydantic import ValidationError

from ctrlruntime.api import Resource
from ctrlruntime.intake import IntakeError, Limits, read_yaml_all
from ctrlruntime.lifecycle.status import describe

LIMITS = Limits(bytes=2**26, items=2_000_000)
"""Of a file on the command line, which only its user waits for."""

R = TypeVar("R", bound=Resource[Any, Any])


def manifests(file: TextIO) -> Iterator[dict[str, Any]]:
    """Yield the objects of a YAML or JSON file, those of a List one by one. Raises ClickException."""
    try:
        for document in read_yaml_all(file.read(), LIMITS, file.name):
            if isinstance(document, dict):
                yield from (
                    document.get("items") or [] if document.get("kind") == "List" else [document]
                )
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file.name} is not UTF-8: save it as UTF-8") from error
    except IntakeError as error:
        raise click.ClickException(str(error)) from error


def one_of(kind: type[R], found: list[dict[str, Any]], name: str | None, place: str) -> R:
    """Return the object of the kind, or that of this name. Raises ClickException for anything else."""
    try:
        typed = [kind.from_manifest(each) for each in found if each.get("kind") == kind.__name__]
    except ValidationError as error:
        raise click.ClickException(f"{place}: {describe(error)}") from error
    names = [each.metadata.name or "" for each in typed]
    if name is None and len(typed) == 1:
        return typed[0]
    if name in names:
        return typed[names.index(name)]
    listed = f", only: {', '.join(names)}" if names else ""
    missing = f"has no {kind.__name__}{f' {name!r}' if name else ''}{listed}"
    several = f"has several: {', '.join(names)}; name one of them"
    raise click.ClickException(f"{place} {several if names and not name else missing}")
