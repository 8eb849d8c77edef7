"""What can be said of a manifest's templates without any row: syntax, functions, variables."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from internal.tenancy.rendering.errors import RenderError, TemplateError
from internal.tenancy.rendering.limits import INLINE
from internal.tenancy.rendering.manifests import Path, locate, walk
from internal.tenancy.rendering.templates import Templates, namespace

MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Report:
    """Errors with their paths, the variables read, and those of them that have a default."""

    errors: tuple[RenderError, ...]
    variables: frozenset[str]
    optional: frozenset[str]
    lost: tuple[str, ...] = ()
    """What templates that read no variable lose by conversions, with the places."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as it crosses the pipe."""
        return {
            "errors": [[error.path, error.message] for error in self.errors],
            "variables": sorted(self.variables),
            "optional": sorted(self.optional),
            "lost": list(self.lost),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Report:
        """Return the report that `to_json` wrote."""
        return cls(
            tuple(RenderError(path, message) for path, message in data["errors"]),
            frozenset(data["variables"]),
            frozenset(data["optional"]),
            tuple(data["lost"]),
        )

    def undefined(self, known: frozenset[str]) -> list[str]:
        """Variables that are neither known nor have a default, sorted."""
        return sorted(self.variables - self.optional - known)


def check(templates: Templates, manifest: Mapping[str, Any]) -> Report:
    """Compile every template of the manifest and report all errors, not only the first."""
    needed: set[str] = set()
    optional: set[str] = set()
    errors: list[RenderError] = []
    templates.meter.begin(INLINE)  # for all of them together: this may run on the event loop

    def leaf(text: str, path: Path) -> str:
        try:
            compiled = templates.compile(text)
        except TemplateError as error:
            if len(errors) < MOST_ERRORS:
                errors.append(RenderError(locate(path), str(error)))
            return text
        needed.update(compiled.variables - compiled.optional)
        optional.update(compiled.optional)
        if not compiled.variables and not compiled.worker:
            _record_losses(templates, text, path)
        return text

    for key, node in manifest.items():
        try:
            walk({key: node}, leaf)
        except RenderError as error:  # nested too deeply
            if len(errors) < MOST_ERRORS:
                errors.append(error)
    lost = tuple(dict.fromkeys(templates.meter.lost))
    return Report(tuple(errors), frozenset(needed | optional), frozenset(optional - needed), lost)


def _record_losses(templates: Templates, text: str, path: Path) -> None:
    """Add to the meter what a template loses that gives the same for every row; nothing where it fails."""
    with suppress(TemplateError):
        templates.render(text, namespace({}))
    templates.meter.place_losses(lambda: locate(path))
