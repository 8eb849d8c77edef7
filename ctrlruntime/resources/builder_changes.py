"""Changes that come from a new builder alone: they were not requested, so they are held back.

A builder is a part of the program, and a new release may build the same resource in another way. What
the builder was given is recorded beside what it made. If only the second changes, the object stays as it
is until its resource changes, or until a roll-out of the builder's changes is requested.
"""

from typing import Final

from ctrlruntime.resources.revision import canonical, revision_of_bytes

INPUTS: Final = "ctrlruntime.dev/inputs"
"""Annotation: the hash of what the builder was given."""


def inputs_of(*parts: object) -> str:
    """Return the hash of what a builder is given: JSON values, the parts of a spec, checksums and versions.

    Give what the user wrote, not what a model fills in: a new release may have more defaults.
    """
    return revision_of_bytes(canonical(parts))
