"""What is built of the samples stays what it is, from one release to the next."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from .golden import FOLDER, RENEW, built, files
from .samples import NAMES, sample


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return files()


@pytest.mark.parametrize("name", NAMES)
def test_an_unchanged_resource_is_built_as_before(name: str, made: dict[Path, str]) -> None:
    path = FOLDER / f"{name}.yaml"
    assert made[path] == path.read_text(), f"{path.name}: {RENEW}"


def test_no_file_is_left_over(made: dict[Path, str]) -> None:
    assert set(FOLDER.iterdir()) == set(made), RENEW


@pytest.mark.parametrize("name", NAMES)
def test_nothing_built_refers_to_its_manager(name: str) -> None:
    """Only an image of the set's own is in a Pod: an upgrade of the manager changes none of them."""
    images = {
        container["image"]
        for item in built(sample(name))
        if item.mapping.gvk.kind == "Pod"
        for place in ("containers", "initContainers")
        for container in item.manifest["spec"].get(place, [])
    }
    manifest = yaml.safe_load(
        (FOLDER.parents[3] / "config" / "samples" / f"{name}.yaml").read_text()
    )
    assert images <= set(_texts(manifest))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []
