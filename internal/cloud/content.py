"""The content of a spec, whatever it leaves to its defaults: one form to hash and to compare.

Fields that equal their default are left out, so that neither a server that writes defaults into an
object nor a release of the manager that adds a field with one makes it look like another spec.
"""

from ctrlruntime.api import ApiModel, Manifest
from ctrlruntime.resources.revision import revision


def content(spec: ApiModel) -> Manifest:
    """Return the spec under its wire names, without what equals its default."""
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def spec_revision(spec: ApiModel) -> str:
    """Return the revision that the Instance controller records on the object that it gives this spec.

    An object whose spec has another one was changed by someone else since.
    """
    return revision(content(spec))
