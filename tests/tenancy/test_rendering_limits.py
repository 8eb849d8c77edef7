"""Templates that want too much: each fails with a clear error, and the event loop goes on."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import signal
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jinja2 import Undefined

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api.conditions import conditions_of
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import PatchType
from ctrlruntime.intake.shallow import split_members
from internal.tenancy.rendering import Renderer, RendererOptions, RenderError, worker
from internal.tenancy.rendering.errors import LimitExceeded, TemplateError
from internal.tenancy.rendering.functions import FUNCTIONS
from internal.tenancy.rendering.golang import GO_PREFIX
from internal.tenancy.rendering.limits import INLINE, LONGEST_TEXT, WORKER, Meter
from internal.tenancy.rendering.sandbox import Sandbox
from internal.tenancy.rendering.templates import Templates, namespace
from internal.tenancy.rendering.values import to_text
from internal.tenancy.rendering.worker import Quarantine
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map


def manifest(text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"a": text}}


def doubling(start: str, join: str, times: int) -> str:
    steps = "".join(f"{{% set x = {join.replace('x', 'x')} %}}" for _ in range(times))
    return f"{{% set x = {start} %}}{steps}{{{{ x }}}}"


TOO_MUCH = {
    "nested ranges": "{% for i in range(9000) %}{% for j in range(9000) %}x{% endfor %}{% endfor %}",
    "nested ranges in Go": "{{ range until 9000 }}{{ range until 9000 }}x{{ end }}{{ end }}",
    "a long range": "{{ range(1000000000) | len }}",
    "a long range with steps": "{{ range(0, 1000000000, 2) | len }}",
    "a huge string by *": "{{ 'x' * 1000000000 }}",
    "a huge list by *": "{{ [1] * 1000000000 }}",
    "a huge string by repeat": "{{ repeat 1000000000 .uid }}",
    "repeats of repeats": '{{ "x" | repeat 2000 | repeat 2000 | repeat 2000 }}',
    "a huge string by indent": "{{ indent 1000000000 .uid }}",
    "a huge string by replace": '{{ "a" | repeat 10000 | replace "a" (repeat 10000 "a") }}',
    "a huge string by join": '{{ range(10000) | join("x" | repeat(10000)) }}',
    "a huge string by doubling": doubling("'xxxxxxxx'", "x ~ x", 60),
    "a huge string by adding": doubling("'xxxxxxxx'", "x + x", 60),
    "a huge list by doubling": doubling("[1]", "x + x", 60),
    "a list that contains itself often": doubling("[1]", "[x, x]", 60),
    "a mapping that contains itself often": doubling("1", "{'a': x, 'b': x}", 60),
    "a wide format by %": "{{ '%1000000000d' % 1 }}",
    "a wide format by printf": '{{ printf "%1000000000d" 1 }}',
    "a power": "{{ 10 ** 10 ** 10 }}",
    "a power of a float": "{{ 1e300 ** 60 }}",
    "an infinite number": "{{ 1e999 }}",
    "an infinite number in a loop": "{% for i in [1] %}{{ 1e999 }}{% endfor %}",
    "a number of 67 bits": "{{ 99999999999999999999 }}",
    "a number of 67 bits in the worker": "{{ [99999999999999999999, regexMatch('a', 'a')] }}",
    "a large product": "{{ 9999999999 * 9999999999 }}",
    "a large product by mul": "{{ mul 9999999999 9999999999 }}",
    "long digits": "{{ ('9' | repeat(100000)) | int + ('1' | repeat(30)) | int }}",
    "deep parentheses": "{{ " + "(" * 300 + "1" + ")" * 300 + " }}",
    "a deep list": "{{ " + "[" * 90 + "]" * 90 + " }}",
    "much work on much text": "".join(
        '{{ "x" | repeat 1000000 | title | len }}' for _ in range(20)
    ),
    "a long range by untilStep": "{{ untilStep 0 1000000000 1 | len }}",
    "a long range by untilStep downwards": "{{ untilStep 9223372036854775807 0 -1 | len }}",
    "a long text by seq": "{{ seq 0 1000000000 }}",
    "many parts by split": '{{ "," | repeat 20000 | split "," | len }}',
    "many parts by splitn": '{{ "," | repeat 20000 | splitn "," 15000 | len }}',
    "many characters by splitList": '{{ "x" | repeat 20000 | splitList "" | len }}',
    "many matches": '{{ regexFindAll "x" (repeat 20000 "x") -1 | len }}',
    "many parts by a pattern": '{{ regexSplit "x" (repeat 20000 "x") -1 | len }}',
    "a pattern on a huge text": '{{ regexReplaceAllLiteral "x" (repeat 100000 "x") "y" }}',
    "a wide wrap": '{{ "x" | repeat 100000 | wrapWith 1 (repeat 1000 "y") }}',
    "a mapping that has itself": (
        '{{ $d := dict "a" 1 }}{{ $_ := set $d "b" $d }}{{ $_ = set $d "c" $d }}{{ $d | toJson }}'
    ),
    "a mapping that has itself, merged": (
        '{{ $d := dict "a" 1 }}{{ $_ := set $d "b" $d }}{{ merge (dict) $d (deepCopy $d) | len }}'
    ),
    "a mapping that has itself, as the result": (
        '{{ $d := dict }}{{ $e := set $d "b" $d }}{{ $e }}'
    ),
    "a mapping that grows": (
        "{{ $d := dict }}{{ range until 9999 }}{{ $k := . }}{{ range until 9 }}"
        '{{ $_ := set $d (printf "%d-%d" $k .) 1 }}{{ end }}{{ end }}'
    ),
    "a variable that doubles": (
        '{{ $x := "xxxxxxxx" }}{{ range until 60 }}{{ $x = print $x $x }}{{ end }}{{ $x }}'
    ),
    "templates that call templates": "".join(
        f'{{{{ define "t{n}" }}}}{{{{ template "t{n + 1}" }}}}{{{{ template "t{n + 1}" }}}}{{{{ end }}}}'
        for n in range(40)
    )
    + '{{ define "t40" }}x{{ end }}{{ template "t0" }}',
    "a large decimal": "{{ mulf 1e300 1e300 }}",
    "a long constraint": '{{ semverCompare (repeat 1000 ">1 ") "1.0.0" }}',
    "much output": "{{ 'x' | repeat(1000000) }}" * 3,
}


@pytest.mark.criterion("BAD-TEMPLATE")
@pytest.mark.parametrize("name", TOO_MUCH)
async def test_what_wants_too_much_fails_and_the_loop_goes_on(
    renderer: Renderer, name: str
) -> None:
    with pytest.raises(RenderError) as caught:
        await renderer.render(manifest(TOO_MUCH[name]), {"uid": "acme"})
    if name == "long digits":
        assert "64 bits" in caught.value.message or "number" in caught.value.message
    assert caught.value.path in {"spec.a", ""}
    assert len(caught.value.message) < 400
    assert not caught.value.transient
    good = await renderer.render(manifest("{{ .uid }}"), {"uid": "acme"})
    assert good["spec"]["a"] == "acme"


@pytest.mark.criterion("RENDER-STALL")
@pytest.mark.parametrize("name", ["a huge string by doubling", "much work on much text"])
async def test_the_loop_gets_its_turn_while_a_template_is_worked_on(
    renderer: Renderer, name: str
) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    with pytest.raises(RenderError):
        await renderer.render(manifest(TOO_MUCH[name]), {"uid": "acme"})
    counting.cancel()
    assert turns > 5
    assert renderer.worker_starts == 1


@pytest.mark.criterion("RENDER-WORKER")
async def test_an_overrun_ends_the_worker_and_the_next_job_gets_a_new_one() -> None:
    renderer = Renderer(RendererOptions(deadline=0.3))
    runaway = manifest('{{ regexMatch "x*x*x*x*x*x*x*x*y" (repeat 9000 "x") }}')
    with pytest.raises(RenderError, match="was stopped") as caught:
        await renderer.render(runaway, {"uid": "a"})
    assert caught.value.transient
    loops = manifest("{% for i in [1, 2] %}{{ uid }}{% endfor %}")
    assert (await renderer.render(loops, {"uid": "b"}))["spec"]["a"] == "bb"
    assert renderer.worker_starts == 2
    with pytest.raises(RenderError, match="overran its deadline before"):
        await renderer.render(runaway, {"uid": "a"})
    assert renderer.worker_starts == 2
    await renderer.close()


@pytest.mark.criterion("RENDER-WORKER")
async def test_others_are_rendered_on_the_loop_while_one_overruns() -> None:
    renderer = Renderer(RendererOptions(deadline=60.0))
    runaway = manifest('{{ regexMatch "x*x*x*x*x*x*x*x*y" (repeat 9000 "x") }}')
    slow = asyncio.create_task(renderer.render(runaway, {"uid": "a"}))
    for number in range(50):
        made = await renderer.render(manifest("{{ .uid }}"), {"uid": str(number)})
        assert made["spec"]["a"] == str(number)
        await asyncio.sleep(0)
    assert not slow.done()
    slow.cancel()
    await asyncio.wait([slow])
    await renderer.close()


@pytest.mark.criterion("RENDER-WORKER")
async def test_a_machine_that_stands_still_overruns_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 6000.0)
    renderer = Renderer(RendererOptions(deadline=0.1))
    loops = manifest("{% for i in [1, 2] %}{{ uid }}{% endfor %}")
    await renderer.render(loops, {"uid": "a"})
    process = renderer._worker._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    rendering = asyncio.create_task(renderer.render(loops, {"uid": "b"}))
    await asyncio.wait([rendering], timeout=0.3)
    process.send_signal(signal.SIGCONT)
    assert (await rendering)["spec"]["a"] == "bb"
    assert renderer.worker_starts == 1
    await renderer.close()


@pytest.mark.criterion("RENDER-WORKER")
def test_a_manifest_with_many_overruns_is_refused_for_a_minute() -> None:
    now = 0.0
    quarantine = Quarantine(lambda: now)
    for row in range(3):
        assert not quarantine.refuses(1, row)
        quarantine.record(1, row)
    assert quarantine.refuses(1, 99)
    assert not quarantine.refuses(2, 0)
    now = 61.0
    assert not quarantine.refuses(1, 99)


@pytest.mark.criterion("RENDER-WORKER")
async def test_both_paths_give_the_same(renderer: Renderer) -> None:
    text = '{{ .uid }}-{{ .n | int }}-{{ dict "a" (list 1 2.5 true) | toJson }}'
    inline = await renderer.render(manifest(text), {"uid": "ü🚀", "n": "4"})
    assert renderer.worker_starts == 0
    forced = manifest(text)
    forced["status"] = "{% for i in [1] %}{% endfor %}"
    worked = await renderer.render(forced, {"uid": "ü🚀", "n": "4"})
    assert renderer.worker_starts == 1
    assert worked["spec"] == inline["spec"]


@pytest.mark.criterion("BAD-1MIB")
async def test_a_value_of_one_mebibyte_renders(renderer: Renderer) -> None:
    big = "x" * 1024 * 1024
    made = await renderer.render(manifest("{{ .big }}"), {"big": big})
    assert made["spec"]["a"] == big
    with pytest.raises(RenderError, match="longer than"):
        await renderer.render(manifest("{{ .big }}{{ .big }}{{ .big }}"), {"big": big})


PIECES = st.sampled_from(
    [
        "{{ uid }}", "{{ .uid | upper }}", "{{ repeat 500 .uid }}", "{{ uid ~ uid }}",
        "{{ range until 50 }}", "{{ end }}", "{% for i in range(60) %}", "{% endfor %}",
        "{% set x = uid ~ uid %}", "{% set x = x ~ x %}", "{{ x }}", "{{ 2 ** 63 }}", "text", "{{",
        "{{ if .uid }}", "{{ else }}", "{{ toJson (list . .) }}", "{{ uid * 99 }}", "{{ 9 // 0 }}",
        "{{ $d := dict }}", '{{ $d = set $d "k" $d }}', "{{ break }}", "{{ continue }}",
        '{{ define "t" }}', '{{ template "t" . }}', '{{ block "b" . }}', "{{ untilStep 0 99999 7 }}",
        "{{ with $d := . }}", "{{ else with .uid }}", "{{ $d | toJson }}", "{{ merge $d . }}",
        "{{ seq 900 }}", '{{ regexSplit "" .uid -1 }}', "{{ chunk 1 (until 9000) }}",
        "{% raw %}", "{% endraw %}", "{{ uid.split('a') }}", "{{- -}}", "{{ . }}", "{{ $ }}",
    ]
)  # fmt: skip


@pytest.mark.criterion("RENDER-BOUNDED")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=300)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_whatever_the_template_the_result_is_bounded_or_a_template_error(text: str) -> None:
    templates = Templates()
    templates.meter.begin(INLINE)
    started = time.process_time()
    with contextlib.suppress(TemplateError):
        made = templates.render(text, namespace({"uid": "acme"}))
        assert len(str(made)) <= LONGEST_TEXT * 2
    assert time.process_time() - started < 60


@pytest.mark.parametrize(
    "text",
    ['{{ "\\ud800" }}', 'a{{ "\\ud800" }}', '{{ list "\\ud800" }}', '{{ dict "\\ud800" 1 }}'],
)
def test_a_result_that_is_no_unicode_is_an_error_of_its_template(text: str) -> None:
    templates = Templates()
    templates.meter.begin(INLINE)
    with pytest.raises(TemplateError, match="not valid Unicode"):
        templates.render(text, namespace({"uid": "acme"}))


@pytest.mark.criterion("RENDER-BOUNDED")
@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ),
    st.integers(0, 500),
)
def test_the_meter_charges_at_least_every_character(value: object, limit: int) -> None:
    def characters(item: object) -> int:
        if isinstance(item, str):
            return len(item)
        if isinstance(item, dict):
            return sum(characters(inner) for inner in item.values())
        return sum(map(characters, item)) if isinstance(item, list) else 0

    meter = Meter(INLINE)
    meter._work = limit
    if characters(value) > limit:
        with pytest.raises(LimitExceeded):
            meter.weigh(value)


ARGUMENTS = (
    st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([0, 1, -1, 3, 10**9, 2**63 - 1, -(2**63)])
    | st.floats()
    | st.booleans()
    | st.none()
    | st.text(max_size=30)
    | st.sampled_from(
        [
            "x" * 5000, "9" * 400, "1.2.3", ">=1.2, <2 || ^3", "1 - 2", "a*", "2006-01-02T15:04:05Z07:00",
            "2024-02-29T00:00:00Z", "1h" * 30, "%5d%-9s%q%v", "https://a:b@h:1/p?q#f", "../a//b/.", ",", "",
            "\ud800", "[1, 2]",
        ]
    )
    | st.sampled_from([[], [1, "a", None, [2]], ["x" * 100] * 100, list(range(3000))])
    | st.just({"a": {"b": {"c": 1}}, "scheme": "s", "path": "p", "l": [1, 2]})
    | st.dictionaries(st.text(max_size=3), st.integers(0, 9) | st.text(max_size=3), max_size=3)
)  # fmt: skip


@pytest.mark.criterion("RENDER-BOUNDED")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=600)
@example("tuple", ["\ud800"])
@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(ARGUMENTS, min_size=1, max_size=5))
def test_whatever_the_arguments_a_function_is_bounded_or_a_template_error(
    name: str, arguments: list[Any]
) -> None:
    meter = Meter(WORKER)
    *others, last = copy.deepcopy(arguments)
    with contextlib.suppress(TemplateError):
        made = Sandbox(meter).filters[GO_PREFIX + name](last, *others)
        if not isinstance(made, Undefined):
            assert len(to_text(made)) <= LONGEST_TEXT * 2


GROWING = [
    "abbrev",
    "abbrevboth",
    "chunk",
    "indent",
    "nindent",
    "range",
    "regexFindAll",
    "regexSplit",
    "repeat",
    "round",
    "seq",
    "slice",
    "splitn",
    "substr",
    "trunc",
    "until",
    "untilStep",
    "wrap",
    "wrapWith",
]
NUMBERS = st.sampled_from([10**9, 2**62, -(10**9), -(2**62), 10**5, 1, 0, -1])


@pytest.mark.criterion("RENDER-BOUNDED")
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@pytest.mark.parametrize("name", GROWING)
@given(numbers=st.lists(NUMBERS, max_size=3), subject=NUMBERS | st.sampled_from(["x y" * 99, ""]))
def test_no_number_makes_a_function_grow_without_bound(
    name: str, numbers: list[int], subject: int | str
) -> None:
    with contextlib.suppress(TemplateError):
        made = Sandbox(Meter(WORKER)).filters[GO_PREFIX + name](subject, *numbers)
        assert len(to_text(made)) <= LONGEST_TEXT * 2


DEEP = b'{"a":' * 1_500 + b"1" + b"}" * 1_500


async def poison(harness: TenancyHarness, kind: RESTMapping, name: str) -> None:
    """Nest 1,500 mappings in the data of the first ConfigMap of a template or tenant."""
    body = b'[{"op":"replace","path":"/spec/configMaps/0/spec/data","value":%b}]' % DEEP
    path = kind.path(namespace=harness.namespace, name=name)
    send = harness.client.transport.request
    await send("PATCH", path, body=body, content_type=PatchType.JSON.value)


async def refused(harness: TenancyHarness, kind: RESTMapping, name: str) -> None:
    """Wait until a condition of an object that cannot be decoded as a whole says so."""

    async def reasons() -> list[str]:
        path = kind.path(namespace=harness.namespace, name=name)
        body = (await harness.client.transport.request("GET", path)).body
        status = orjson.loads(split_members(body)["status"])
        return [item.reason for item in conditions_of(status)]

    await harness.eventually(reasons, lambda found: "InvalidSpec" in found)


@pytest.mark.criterion("S-F2")
async def test_a_template_and_a_tenant_nested_too_deep_cost_nothing_else(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a", "b")
        await harness.registry()
        await harness.template("poor", configMaps=[config_map("cm", "{{ .uid }}-poor")])
        await harness.template("good", configMaps=[config_map("cm", "{{ .uid }}-good")])
        await harness.ready("a-poor", "b-poor", "a-good", "b-good")
        await poison(harness, TenantTemplate.mapping(), "poor")
        await poison(harness, Tenant.mapping(), "a-good")
        for uid in ("c", "d"):
            harness.row(uid)
            await harness.ready(f"{uid}-good")
            if uid == "d":
                harness.row("c", active=0)
                await harness.gone(Tenant.mapping(), "c-good")
            for name in ("a-poor", "b-poor", "a-good", "b-good"):
                assert await harness.get(CONFIG_MAP, name) is not None
            for name in ("a-poor", "b-poor", "b-good"):
                assert await harness.tenant(name) is not None
            await refused(harness, Tenant.mapping(), "a-good")
            await refused(harness, TenantTemplate.mapping(), "poor")
            await harness.restart_manager()
