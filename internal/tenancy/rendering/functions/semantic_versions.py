"""`semver` and `semverCompare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.values import to_text
from internal.tenancy.rendering.versions import Version, compare, parse, satisfies


def semver(text: object) -> Version:
    """Return the version that a text spells; its fields are Major, Minor, Patch, Prerelease, Metadata."""
    return text if isinstance(text, Version) else parse(to_text(text))


def semver_compare(constraint: object, version: object) -> bool:
    """Whether the version is within the constraint."""
    return satisfies(to_text(constraint), semver(version))


def compare_method(other: object, version: object) -> int:
    """`(semver "1.2.3").Compare other`: -1, 0 or 1."""
    if not isinstance(other, Version) or not isinstance(version, Version):
        raise TemplateError("Compare: both values have to be made by semver")
    return compare(version, other)


VERSIONS: dict[str, Callable[..., Any]] = {"semver": semver, "semverCompare": semver_compare}
