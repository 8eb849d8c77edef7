"""The template language: both spellings, native values, text where text is meant, rendered once."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctrlruntime.json import Json
from internal.tenancy.rendering import Renderer, RenderError, combine
from internal.tenancy.rendering.errors import TemplateError
from internal.tenancy.rendering.functions.texts import trunc63
from internal.tenancy.rendering.limits import WORKER
from internal.tenancy.rendering.manifests import render
from internal.tenancy.rendering.templates import Templates, namespace

ROW = {
    "uid": "acme",
    "replicas": "3",
    "planId": "",
    "ratio": "0.5",
    "on": "yes",
    "url": "https://shop.acme.example:8443/x",
    "json": '{"regions": ["eu", "us"], "limits": {"cpu": 2}, "none": null}',
    "names": "b,a,b",
    "title": "the title",
    "evil": '{{ uid }}{{ "x" | repeat(3) }}{% for i in [1] %}{% endfor %}',
}


def rendered(text: str, **variables: object) -> Json:
    templates = Templates()
    templates.meter.begin(WORKER)
    return templates.render(text, namespace({**ROW, **variables}))


@pytest.mark.criterion("RENDER-GO")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ .uid }}", "acme"),
        ("{{.uid}}-app", "acme-app"),
        ("{{ .uid | upper }}", "ACME"),
        ('{{ .planId | default "basic" }}', "basic"),
        ('{{ .absent | default "basic" }}', "basic"),
        ('{{ default "basic" .absent }}', "basic"),
        ('{{ .uid | default "basic" }}', "acme"),
        ("{{ trunc 2 .uid }}", "ac"),
        ("{{ .uid | trunc 2 | upper }}", "AC"),
        ('{{ printf "%s-%s" .uid .replicas }}', "acme-3"),
        ('{{ printf "%05d|%-4s|%q" (int .replicas) "a" .uid }}', '00003|a   |"acme"'),
        ('{{ if eq .uid "acme" }}A{{ else }}B{{ end }}', "A"),
        ("{{ if .planId }}A{{ else if .uid }}B{{ else }}C{{ end }}", "B"),
        ('{{ if and .uid (not .planId) (ne .uid "x") }}A{{ end }}', "A"),
        ("{{ if or .planId (gt (int .replicas) 2) }}A{{ end }}", "A"),
        ('{{ range splitList "," .names }}[{{ . }}]{{ end }}', "[b][a][b]"),
        ('{{ range $i, $n := splitList "," .names }}{{ $i }}{{ $n }} {{ end }}', "0b 1a 2b "),
        ("{{ range $k, $v := (fromJson .json).limits }}{{ $k }}={{ $v }}{{ end }}", "cpu=2"),
        ("{{ range (list) }}x{{ else }}none{{ end }}", "none"),
        ("{{ range (fromJson .json).regions }}{{ . }}-{{ $.uid }} {{ end }}", "eu-acme us-acme "),
        ("{{ with .uid }}{{ . }}!{{ end }}", "acme!"),
        ("{{ with .planId }}x{{ else }}y{{ end }}", "y"),
        ("{{ $name := upper .uid }}{{ $name }}-{{ $name }}", "ACME-ACME"),
        ("a {{- /* note */ -}} b", "ab"),
        ("a {{- .uid -}} b", "aacmeb"),
        ("{{/* how many */}}{{ .replicas | int }}", 3),
        ('{{ index . "uid" }}', "acme"),
        ("{{ index (fromJson .json).regions 1 }}", "us"),
        ("{{ .url | toHost }}", "shop.acme.example"),
        ("{{ (eq .on `yes`) | ternary 1 2 }}", 1),
        ('{{ .names | splitList "," | uniq | sortAlpha | join "/" }}', "a/b"),
        ("{{ .replicas | int | add 1 | mul 2 }}", 8),
        ("{{ sub 10 .replicas }}", 7),
        ('{{ dict "a" 1 "b" (list 2 3) | toJson }}', '{"a":1,"b":[2,3]}'),
        ('{{ "{{" }} .Values.x }}', "{{ .Values.x }}"),
        ("${#items[@]} {{ .uid }}", "${#items[@]} acme"),
        ("{{ .title }}", "the title"),
        ("{{ .title | title }}", "The Title"),
        ('{{ .title | replace " " "-" }}', "the-title"),
        ('{{ regexReplaceAll "[^a-z]+" .title "_" }}', "the_title"),
        ('{{ regexMatch "^a.*e$" .uid }}', True),
        ("{{ .uid | b64enc | b64dec | sha1sum | trunc 7 }}", "7de6795"),
    ],
)
def test_the_go_spelling(text: str, value: object) -> None:
    result = rendered(text)
    if text.endswith("trunc 7 }}"):
        assert len(result) == 7
        return
    assert result == value
    assert type(result) is type(value)


@pytest.mark.criterion("RENDER-JINJA")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ uid }}", "acme"),
        ("{{ uid | upper }}-x", "ACME-x"),
        ('{{ absent | default("basic") }}', "basic"),
        ('{{ absent.deep["er"] | default("basic") }}', "basic"),
        ("{{ uid if replicas|int > 2 else none }}", "acme"),
        ("{% if on == 'yes' %}A{% else %}B{% endif %}", "A"),
        ("{% for r in (json|fromJson).regions %}{{ loop.index }}{{ r }}{% endfor %}", "1eu2us"),
        ("{{ uid ~ '-' ~ replicas }}", "acme-3"),
        ("{{ replicas | int + 1 }}", 4),
        ("{{ 7.5 | round(0) }}", 8.0),
        ('{{ title | replace(" ", "-") }}', "the-title"),
        ("{{ uid[:2] }}", "ac"),
        ("{{ uid.upper() }}", "ACME"),
        ("{{ upper(uid) }}", "ACME"),
        ("{{ absent is defined }}", False),
        ("{% raw %}{{ .x }}{% endraw %}", "{{ .x }}"),
        ('{{ {"a": {"b": 1}} }}', {"a": {"b": 1}}),
        ("{{ names.split(',') | length }}", 3),
    ],
)
def test_the_jinja_spelling(text: str, value: object) -> None:
    assert rendered(text) == value


@pytest.mark.criterion("RENDER-NATIVE")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ replicas | int }}", 3),
        ("{{ .replicas | int }}", 3),
        ("{{ .uid | int }}", 0),
        ("{{ ratio | float }}", 0.5),
        ("{{ on | bool }}", True),
        ("{{ none }}", None),
        ("{{ [1, 'a', true] }}", [1, "a", True]),
        ("{{ (json | fromJson).limits }}", {"cpu": 2}),
        ("{{ replicas }}", "3"),
        ("n={{ replicas | int }}", "n=3"),
        ("{{ replicas | int }}Mi", "3Mi"),
        ("{{ on | bool }} {{ none }}|{{ 2.0 }}", "true |2"),
        (" {{ replicas | int }}", " 3"),
    ],
)
@pytest.mark.criterion("FAULT-B21")
def test_one_whole_expression_is_native_and_mixed_text_is_text(text: str, value: object) -> None:
    result = rendered(text)
    assert result == value
    assert type(result) is type(value)


VALUES = st.text(max_size=40) | st.sampled_from(
    ["{{ uid }}", "{{ .x }}", "{% if %}", "{# x #}", "}}"]
)


@pytest.mark.criterion("RENDER-ONCE")
@given(VALUES, VALUES)
@pytest.mark.criterion("FAULT-B20")
def test_what_a_row_holds_is_data_and_never_a_template(one: str, two: str) -> None:
    assert rendered("{{ .a }}", a=one) == one
    assert rendered("{{ a }}/{{ .b }}", a=one, b=two) == f"{one}/{two}"


@pytest.mark.criterion("RENDER-ONCE")
def test_a_manifest_with_hostile_values_renders_them_unchanged() -> None:
    manifest = combine(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "{{ .evil }}"}},
        name="{{ .evil }}",
        labels={"l": "{{ evil }}"},
    )
    made = render(Templates(), manifest, namespace(ROW))
    assert made["metadata"] == {"name": ROW["evil"], "labels": {"l": ROW["evil"]}}
    assert made["data"]["a"] == ROW["evil"]


@pytest.mark.criterion("RENDER-PLAIN")
@given(st.text().filter(lambda text: "{{" not in text and "{%" not in text))
def test_text_without_templates_is_left_alone(text: str) -> None:
    manifest = {"kind": "X", "spec": {text: [text, [text]]}}
    assert render(Templates(), manifest, namespace({})) == manifest


@pytest.mark.criterion("RENDER-QUOTING")
@given(st.text(alphabet=string.printable.replace("\r", ""), max_size=30))
def test_any_text_can_be_written_as_a_literal_in_either_spelling(text: str) -> None:
    literal = json.dumps(text)
    assert rendered(f'{{{{ {literal} | default "" }}}}') == text
    assert rendered(f"{{{{ {literal} }}}}|") == f"{text}|"


@pytest.mark.criterion("RENDER-NAMES")
@given(st.sampled_from(sorted(Templates()._sandbox.filters)).filter(str.isalnum))
def test_a_missing_variable_of_a_functions_name_is_missing_all_the_same(name: str) -> None:
    with pytest.raises(TemplateError, match="is not defined"):
        rendered(f"{{{{ .{name} }}}}") if name not in ROW else rendered("{{ .absent }}")
    assert rendered(f"{{{{ .{name} | upper }}}}", **{name: "v"}) == "V"


@pytest.mark.criterion("RENDER-TYPES")
def test_places_that_hold_text_stay_text() -> None:
    number = "{{ replicas | int }}"
    manifest = {
        "apiVersion": number,
        "kind": "Deployment",
        "metadata": {"name": number, "labels": {"a": number}, "annotations": {"a": number}},
        "spec": {
            "replicas": number,
            "selector": {"matchLabels": {"a": number}},
            "template": {
                "spec": {
                    "nodeSelector": {"a": number},
                    "containers": [
                        {
                            "args": [number],
                            "command": [number],
                            "env": [{"name": "A", "value": number}],
                            "ports": [{"containerPort": number}],
                            "deep": [[number, [number]]],
                        }
                    ],
                }
            },
        },
        "data": {"a": number},
    }
    made = render(Templates(), manifest, namespace(ROW))
    spec = made["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    assert [made["apiVersion"], *made["metadata"]["labels"].values()] == ["3", "3"]
    assert [made["metadata"]["name"], made["metadata"]["annotations"]["a"]] == ["3", "3"]
    assert spec["selector"]["matchLabels"]["a"] == pod["nodeSelector"]["a"] == "3"
    assert container["args"] == container["command"] == ["3"]
    assert container["env"][0]["value"] == "3"
    assert spec["replicas"] == container["ports"][0]["containerPort"] == 3
    assert container["deep"] == [[3, [3]]]
    assert made["data"]["a"] == 3
    for kind, field in (
        ("ConfigMap", "data"),
        ("ConfigMap", "binaryData"),
        ("Secret", "stringData"),
    ):
        held = render(Templates(), {"kind": kind, field: {"a": number}}, namespace(ROW))
        assert held[field]["a"] == "3"


@pytest.mark.criterion("RENDER-KEYS")
def test_keys_are_never_rendered() -> None:
    assert render(Templates(), {"{{ uid }}": "{{ uid }}"}, namespace(ROW)) == {"{{ uid }}": "acme"}


@pytest.mark.criterion("RENDER-MERGE")
def test_labels_and_annotations_merge_and_name_and_namespace_stay_unless_given() -> None:
    manifest = {
        "metadata": {
            "name": "own",
            "namespace": "argocd",
            "labels": {"keep": "1", "both": "1"},
            "annotations": {"nginx": "x"},
        }
    }
    made = combine(manifest, labels={"both": "2"}, annotations={"more": "y"})
    assert made["metadata"] == {
        "name": "own",
        "namespace": "argocd",
        "labels": {"keep": "1", "both": "2"},
        "annotations": {"nginx": "x", "more": "y"},
    }
    assert combine(manifest, name="n", namespace="s")["metadata"]["namespace"] == "s"
    assert manifest["metadata"]["labels"] == {"keep": "1", "both": "1"}


@pytest.mark.criterion("RENDER-ERRORS")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ .absent }}", "'absent' is not defined"),
        ("{{ absent | upper }}", "'absent' is not defined"),
        ("x{{ if .absent }}y{{ end }}", "'absent' is not defined"),
        ("{{ .uid", "{{ is not closed"),
        ("{% if uid", "{% is not closed"),
        ("{{ if .uid }}x", "has no {{ end }}"),
        ("{{ end }}", "closes nothing"),
        ("{{ .uid | frobnicate }}", "no function 'frobnicate'"),
        ("{{ frobnicate(uid) }}", "no function 'frobnicate'"),
        ('{{ template "x" . }}', "there is no template 'x'"),
        ("{{ template .uid }}", 'needs a name: {{ template "x" }}'),
        ('{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}', "calls itself"),
        ('{{ define "x" }}{{ end }}{{ define "x" }}{{ end }}', "is defined twice"),
        ('{{ if .uid }}{{ define "x" }}{{ end }}{{ end }}', "outside of all other blocks"),
        ('{{ define "x" }}{{ if .uid }}{{ end }}', "{{ define }} has no {{ end }}"),
        ('{{ define "x" }}{{ $y }}{{ end }}{{ $y := 1 }}{{ template "x" }}', "$y is not declared"),
        ('{{ block "x" }}{{ end }}', '{{ block "x" . }}'),
        ("{{ break }}", "stands outside of {{ range }}"),
        ("{% continue %}", "inside of a loop only"),
        ("{{ if .uid }}{{ $y := 1 }}{{ end }}{{ $y = 2 }}", "$y is not declared"),
        ("{{ .uid = 2 }}", "only a variable that := has declared"),
        ('{{ set .uid "a" 1 }}', "set: the value is not a mapping"),
        ('{{ dig "a" .uid }}', "dig: it needs keys, a fallback and a mapping"),
        ('{{ dict "a" 1 | dig "a" "b" "x" }}', "dig: the value is not a mapping"),
        ('{{ semver "one" }}', "not a semantic version"),
        ('{{ semverCompare "~ one" "1.2.3" }}', "the constraint is not one"),
        ("{{ slice (list 1 2) 3 }}", "slice: out of range"),
        ("{{ chunk 0 (list 1) }}", "the size has to be at least 1"),
        ('{{ date "2006" .uid }}', "date: the value is not a date; make one with toDate"),
        ('{{ toDate "2006-01-02" .uid }}', "not a date in this layout"),
        ('{{ toDate "2006-01-02" "2023-02-29" }}', "not a date in this layout"),
        ('{{ toDate "01 01" "01 01" }}', "has a part twice"),
        ('{{ toDate "002" "001" }}', "the part 002 of the layout cannot be read"),
        ('{{ dateInZone "2006" 0 "Europe/Berlin" }}', "templates know UTC only"),
        ('{{ 0 | dateModify "soon" }}', "not a duration such as -1.5h"),
        ('{{ toDate "2006" "0001" | dateModify "-1h" }}', "within the years 1 to 9999"),
        ('{{ regexMatch "a\\\\Z" .uid }}', "the end of the text is"),
        ("{{ divf 1 0 }}", "divf: the result is not a number"),
        ('{{ b32dec "!" }}', "not base32"),
        ("{{ randAlphaNum 5 }}", "keep the value in a column, or in a Secret"),
        ('{{ genCA "x" 1 }}', "cert-manager"),
        ('{{ env "HOME" }}', "map the value to a column"),
        ('{{ include "x" . }}', "use {{ define }} and {{ template }}"),
        ('{{ fail "no plan \\"x\\" here" }}', 'fail: no plan "x" here'),
        ('{{ fail (printf "%s has 100%% of %d" .uid 1) }}', "fail: … has 100% of …"),
        ('{{ fail("bad " ~ uid) }}', "fail: bad …"),
        ("{{ fail .uid }}", "the template calls fail"),
        ("{{ .a + 1 }}", "call a function such as add"),
        ('{{ replace "a", "b" .uid }}', "separated by blanks, not commas"),
        ("{{ $x }}", "$x is not declared"),
        ("{{ .uid .title }}", "is not understood|takes no arguments"),
        ('{{ env "HOME" }}', "environment is not open"),
        ("{{ now() }}", "another result at every rendering"),
        ('{{ getHostByName "x" }}', "no access to the network"),
        ("{{ uid | fromJson }}", "not valid JSON"),
        ('{{ "x" | b64dec }}', "not base64"),
        ("{{ div 1 0 }}", "division by zero"),
        ("{{ uid + 1 }}", "needs two numbers"),
        ("{{ eq .uid 1 }}", "text is compared with a number"),
        ("{{ uid.__class__ }}", "no access to"),
        ("{{ uid.format('x') }}", "no access to"),
        ("{{ uid | attr('x') }}", "no function 'attr'"),
        ("{% macro m() %}{% endmacro %}", "macro %} is not supported"),
        ("{% include 'x' %}", "include %} is not supported"),
        ("{% import 'x' as y %}", "import %} is not supported"),
        ('{{ regexMatch "(a+)+$" .uid }}', "nests repetitions"),
        ('{{ regexMatch "(a|ab)*" .uid }}', "repeats alternatives"),
        ('{{ regexMatch "(?=x)" .uid }}', "look-around"),
        ('{{ regexMatch "(" .uid }}', "not a valid regular expression"),
        ('{{ printf "%s" }}', "fewer values"),
        ('{{ printf "%y" 1 }}', "verb %y"),
    ],
)
def test_every_error_reports_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(text)
    assert any(part in str(caught.value) for part in message.split("|"))


SECRET = "hunter2-hunter2"
GOING_WRONG = [
    "{{ pw | fromJson }}",
    "{{ pw | b64dec }}",
    "{{ pw + 1 }}",
    "{{ {}[pw] }}",
    "{{ go_root[pw] }}",
    "{{ index . .pw }}",
    "{{ [1][pw] }}",
    "{{ pw.absent }}",
    "{{ pw | printf(1) }}",
    "{{ regexMatch .pw .pw 1 }}",
    "{{ eq .pw 1 }}",
    "{{ max .pw 1 }}",
    "{{ fail .pw }}",
    '{{ fail (printf "%s" .pw) }}',
    '{{ fail (print "x" .pw) }}',
    "{{ semver .pw }}",
    "{{ semverCompare .pw .pw }}",
    "{{ toDate .pw .pw }}",
    "{{ divf .pw 1 }}",
    "{{ merge .pw .pw }}",
    "{{ dig .pw .pw .pw .pw }}",
    "{{ chunk .pw (list 1) }}",
    "{{ regexSplit .pw .pw }}",
    '{{ index (dict "a" 1) .pw "b" }}',
    "{{ pw() }}",
    "{% for a, b in [pw] %}{% endfor %}",
    "{{ pw | repeat(100000000) }}",
    "{{ dict .pw }}",
]


@pytest.mark.criterion("SENSITIVE")
@pytest.mark.parametrize("text", GOING_WRONG)
async def test_no_error_quotes_a_value(renderer: Renderer, text: str) -> None:
    with pytest.raises(RenderError) as caught:
        await renderer.render({"kind": "X", "spec": {"a": [text]}}, {"pw": SECRET})
    said = f"{caught.value} {caught.value!r}"
    assert SECRET not in said
    assert caught.value.path in {"spec.a[0]", ""}


@pytest.mark.criterion("RENDER-GO")
def test_what_a_template_changes_no_other_template_sees() -> None:
    templates = Templates()
    changes = '{{ $_ := set . "uid" "changed" }}{{ $_ := unset $ "on" }}{{ .uid }}'
    manifest = {
        "a": "{{ .uid }} {{ .on }}",
        "b": changes,
        "c": '{{ $_ := merge . (dict "planId" "x") }}{{ $_ = mergeOverwrite . (dict "on" 5) }}.',
        "d": "{{ .uid }} {{ .on }} {{ .planId }} {{ uid }}",
    }
    templates.meter.begin(WORKER)
    made = render(templates, manifest, namespace(ROW))
    assert made == {"a": "acme yes", "b": "changed", "c": ".", "d": "acme yes  acme"}
    nested = {**ROW, "deep": {"a": {"b": 1}}}
    variables = namespace(nested)
    text = '{{ $_ := set .deep.a "b" 2 }}{{ $_ := set (index $ "deep" "a") "c" 3 }}{{ .deep.a.b }}'
    assert templates.render(text, variables) == "2"
    assert nested["deep"] == {"a": {"b": 1}}
    assert templates.render("{{ .deep.a | toJson }}", variables) == '{"b":1}'


@pytest.mark.criterion("RENDER-NATIVE")
@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("{{ uid | int }}", ["a.b[0]: int: a value that is not a number became 0"]),
        ("{{ ratio | int }}", ["a.b[0]: int: the fraction of a number was cut off"]),
        ("{{ planId | int64 }}", ["a.b[0]: int64: a value that is not a number became 0"]),
        ("{{ float64 .uid }}", ["a.b[0]: float64: a value that is not a number became 0"]),
        (
            "{{ .uid | bool }}",
            ["a.b[0]: bool: a value that is neither true nor false became false"],
        ),
        ("{{ toDecimal .uid }}", ["a.b[0]: toDecimal: a value that is not octal became 0"]),
        (
            "{{ range list 1 2 }}{{ int $.uid }}{{ end }}",
            ["a.b[0]: int: a value that is not a number became 0"],
        ),
        (
            "{{ replicas | int }}{{ ratio | float }}{{ on | bool }}{{ 3.7 | int }}{{ '3.0' | int }}",
            [],
        ),
        ('{{ .planId | default "1" | int }}{{ "no" | bool }}{{ toDecimal "0755" }}', []),
    ],
)
async def test_what_a_conversion_loses_is_recorded_with_its_place(
    renderer: Renderer, text: str, lost: list[str]
) -> None:
    found: list[str] = []
    await renderer.render({"kind": "X", "a": {"b": [text]}, "c": "{{ uid }}"}, ROW, found)
    assert found == lost


@pytest.mark.criterion("RENDER-NATIVE")
async def test_recorded_losses_are_bounded(renderer: Renderer) -> None:
    found: list[str] = []
    await renderer.render({"a": ["{{ uid | int }}"] * 50}, ROW, found)
    assert len(found) == 10


@pytest.mark.criterion("RENDER-TRUNC63")
@given(st.text() | st.text("aé-._", max_size=80))
@example("short-")
@example("a" * 62 + "-b")
def test_trunc63_never_cuts_a_character_and_fits_a_label(text: str) -> None:
    made = trunc63(text)
    assert len(made.encode()) <= 63
    assert text.startswith(made)
    assert not made.endswith(("-", ".", "_"))


@pytest.mark.criterion("RENDER-CACHE")
@pytest.mark.criterion("FAULT-B29")
def test_the_cache_is_bounded() -> None:
    templates = Templates(cached=10)
    for number in range(50):
        templates.compile(f"{{{{ uid }}}}-{number}")
    assert len(templates) == 10


@pytest.mark.criterion("RENDER-CHECK")
async def test_a_check_reports_all_errors_and_the_variables_that_must_be_mapped(
    renderer: Renderer,
) -> None:
    report = await renderer.check(
        {
            "kind": "X",
            "metadata": {"name": '{{ .uid }}-{{ .planId | default "x" }}'},
            "spec": ["{{ nope", {"a": "{{ x | frob }}", "b": "{{ .region }}{{ upper(zone) }}"}],
        }
    )
    assert [error.path for error in report.errors] == ["spec[0]", "spec[1].a"]
    assert report.variables == {"uid", "planId", "region", "zone"}
    assert report.undefined(frozenset({"uid"})) == ["region", "zone"]
