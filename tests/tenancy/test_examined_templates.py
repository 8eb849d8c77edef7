"""Checks of templates whose number the author decides: in slices, in the rendering process, or refused."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from apis.tenancy import TenantTemplate
from ctrlruntime.webhook import Application
from ctrlruntime.webhook.review import MOST_ITEMS, has_more_items
from ctrlruntime.webhook.validating import Validating
from internal.tenancy.objects import graph
from internal.tenancy.objects.graph import MOST_DEPENDENCIES, MOST_RESOURCES
from internal.tenancy.rendering import Renderer, RenderError
from internal.tenancy.rendering import renderer as rendering
from internal.tenancy.rendering.manifests import LARGEST_MANIFEST
from internal.tenancy.rendering.renderer import MOST_INLINE_STRINGS, MOST_TEMPLATES
from internal.tenancy.template.compiled import MOST_TEMPLATES_IN_ALL, Blueprints
from tests.webhook.posting import posting, review

pytestmark = pytest.mark.criterion("S-F3")


def manifest(templates: int, place: int = 0) -> dict[str, Any]:
    data = {f"k{number}": f"{{{{ uid }}}}-{place}-{number}" for number in range(templates)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def template(*resources: dict[str, Any]) -> TenantTemplate:
    metadata = {"name": "web", "namespace": "team"}
    spec = {"registryId": "people", "configMaps": resources[:500], "manifests": resources[500:]}
    return TenantTemplate.model_validate({"metadata": metadata, "spec": spec})


async def test_the_loop_gets_a_turn_between_templates_that_are_compiled(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "LONGEST_SLICE", 0.0)
    checking = asyncio.create_task(renderer.check(manifest(20)))
    seen = []
    while not checking.done():
        await asyncio.sleep(0)
        seen.append(len(renderer._templates))
    assert seen[:20] == list(range(1, 21))
    assert not (await checking).errors


async def test_many_templates_are_compiled_in_the_rendering_process(renderer: Renderer) -> None:
    report = await renderer.check(manifest(MOST_INLINE_STRINGS + 1))
    assert report.variables == {"uid"}
    assert renderer.worker_starts == 1
    assert len(renderer._templates) == 0


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (manifest(MOST_TEMPLATES + 1), "split the resource"),
        ({"data": [0] * (LARGEST_MANIFEST + 1)}, "split it"),
    ],
)
async def test_what_is_too_large_is_neither_checked_nor_rendered(
    renderer: Renderer, found: dict[str, Any], words: str
) -> None:
    with pytest.raises(RenderError, match=words) as caught:
        await renderer.check(found)
    assert not caught.value.transient
    with pytest.raises(RenderError, match=words):
        await renderer.render(found, {"uid": "a"})
    assert (renderer.worker_starts, len(renderer._templates)) == (0, 0)


SMALL = {"spec": {"apiVersion": "v1", "kind": "ConfigMap"}}


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ([{"id": f"r{n}", **SMALL} for n in range(MOST_RESOURCES + 1)], "more than the 500"),
        (
            [{"id": f"r{n}", "dependIds": ["no"] * 26, **SMALL} for n in range(200)],
            f"more than the {MOST_DEPENDENCIES}",
        ),
        (
            [{"id": f"r{n}", "spec": manifest(400, n)} for n in range(13)],
            f"more than the {MOST_TEMPLATES_IN_ALL}",
        ),
    ],
    ids=["resources", "dependencies", "templates"],
)
async def test_an_object_that_is_too_large_is_refused_before_anything_is_compiled(
    renderer: Renderer, resources: list[dict[str, Any]], words: str
) -> None:
    verdict = await Blueprints(renderer).examine(template(*resources))
    assert verdict.too_large
    assert words in verdict.problems[0]
    assert len(renderer._templates) == 0


async def test_similar_ids_are_looked_for_a_few_times(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []

    monkeypatch.setattr(graph, "similar_name", lambda _name, known: looked.append(bool(known)))
    resources = [{"id": f"r{n}", "dependIds": [f"x{n}"], **SMALL} for n in range(100)]
    resources += [{"id": "long", "dependIds": ["x" * 200], **SMALL}]
    verdict = await Blueprints(renderer).examine(template(*resources))
    assert sum("does not have" in problem for problem in verdict.problems) == 101
    assert sum(looked) == graph.MOST_SUGGESTIONS


async def test_a_check_that_the_rendering_process_lost_is_made_again(renderer: Renderer) -> None:
    lost = Renderer(rendering.RendererOptions(deadline=0.001))
    try:
        large = {"id": "r", "spec": manifest(MOST_TEMPLATES)}
        verdict = await Blueprints(lost).examine(template(large))
        assert verdict.problems
        assert not verdict.lasting
    finally:
        await lost.close()
    assert (await Blueprints(renderer).examine(template(large))).lasting


async def test_an_object_of_too_many_values_is_refused_and_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TenantTemplate, "from_manifest", lambda _: pytest.fail("it was decoded"))

    def fill(application: Application) -> None:
        application.handle("/", Validating(TenantTemplate, {"CREATE": [lambda *_: None]}))

    new = template().to_manifest()
    new["spec"]["manifests"] = [{"id": "a", "spec": {}}] * MOST_ITEMS
    async with posting(fill) as client:
        answer = await client.post("/", review(new))
    assert not answer.response["allowed"]
    assert f"more than {MOST_ITEMS} values" in answer.response["status"]["message"]
    assert not has_more_items(orjson.dumps({"text": "," * 2 * MOST_ITEMS}), MOST_ITEMS)
