"""Why a Pod is made anew, in words for the event. Pure."""

from collections.abc import Iterator, Mapping

from ctrlruntime.json import Json
from ctrlruntime.resources.diff import Update
from internal.cosmos.labels import NODE_KEY_ID
from internal.cosmos.workload.checksums import CONFIG_CHECKSUM


def why_replaced(update: Update) -> str:
    """Return the images that change, or else whether its key, its configuration or its template does."""
    before, after = update.entry, update.desired.manifest
    has, wants = _images(before.field("spec")), _images(after["spec"])
    images = [
        f"{name} runs {wants[name]}, before {image}"
        for name, image in has.items()
        if wants.get(name, image) != image
    ]
    if images:
        return "; ".join(images)
    key = update.desired.annotations.get(NODE_KEY_ID, "")
    if key and before.annotations.get(NODE_KEY_ID, key) != key:
        return "its node key changed"
    recorded = (after["metadata"].get("annotations") or {}).get(CONFIG_CHECKSUM)
    if recorded != before.annotations.get(CONFIG_CHECKSUM):
        return "its configuration changed"
    return "its template changed"


def _images(spec: Json) -> dict[str, object]:
    return {str(each.get("name")): each.get("image") for each in _containers(spec)}


def _containers(spec: Json) -> Iterator[Mapping[str, Json]]:
    for field in ("initContainers", "containers"):
        found = spec.get(field) if isinstance(spec, dict) else None
        yield from (each for each in found or () if isinstance(each, dict))
