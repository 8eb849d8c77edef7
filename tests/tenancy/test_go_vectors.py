"""The Go spelling gives what Go gives, for the documented examples of text/template and sprig and for more.

`vectors/go_templates.json` holds pairs of a template and its result by the page that documents what is
used. The results are the output of Go 1.19 with sprig 3.2.3; those of Debian 12, `golang-1.19` and
`golang-github-masterminds-sprig-dev`, give them again. The variables are those of `ROW`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from internal.tenancy.rendering.functions import FUNCTIONS, REFUSED
from internal.tenancy.rendering.limits import WORKER
from internal.tenancy.rendering.templates import Templates, namespace
from internal.tenancy.rendering.values import to_text

VECTORS: dict[str, list[tuple[str, str]]] = json.loads(
    (Path(__file__).parent / "vectors" / "go_templates.json").read_text()
)
ROW = {"uid": "acme", "replicas": "3", "planId": "", "names": "b,a,b"}

DIFFERENT = {
    # Go prints [1 2] and map[a:1], which no manifest can use.
    "{{ list 1 2 }}|": "[1,2]|",
    '{{ dict "a" 1 }}|': '{"a":1}|',
    # A library's comment has ^* as any version, its code as 0.x.
    '{{ semverCompare "^*" "1.2.3" }}': "true",
    # Go rounds -1.4 to -2.
    "{{ round -1.4 0 }}": "-1",
    # JSON numbers are whole where they can be; Go has floats.
    '{{ (fromJson "{\\"a\\": 1}").a | kindOf }}': "int",
    # 3.3 of sprig; there is none of it in Debian.
    '{{ sha512sum "" | trunc 16 }}': "cf83e1357eefb8bd",
    # Later Go than 1.19: else with, range over a number.
    "{{ with .planId }}a{{ else with .uid }}{{ . }}{{ end }}": "acme",
    "{{ range 3 }}{{ . }}{{ end }}": "012",
    # text/template's slice, which sprig hides, cuts texts.
    '{{ slice "abcdef" 1 3 }}': "bc",
}


def rendered(text: str) -> str:
    templates = Templates()
    templates.meter.begin(WORKER)
    return to_text(templates.render(text, namespace(ROW)))


@pytest.mark.criterion("RENDER-GO")
@pytest.mark.parametrize("page", VECTORS)
def test_a_documented_example_gives_what_go_gives(page: str) -> None:
    found = [(text, rendered(text), given) for text, given in VECTORS[page]]
    assert [each for each in found if each[1] != each[2]] == []
    assert len(found) == len(VECTORS[page])


@pytest.mark.criterion("RENDER-GO")
@pytest.mark.parametrize(("text", "result"), DIFFERENT.items())
def test_where_go_is_not_followed_the_result_is_this(text: str, result: str) -> None:
    assert rendered(text) == result


SPRIG = """
abbrev abbrevboth add add1 add1f addf adler32sum ago all any append atoi b32dec b32enc b64dec b64enc base
bcrypt biggest buildCustomCert camelcase cat ceil chunk clean coalesce compact concat contains date
dateInZone dateModify date_in_zone date_modify decryptAES deepCopy deepEqual default derivePassword dict dig
dir div divf duration durationRound empty encryptAES env expandenv ext fail first float64 floor fromJson
genCA genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert
genSignedCertWithKey get getHostByName has hasKey hasPrefix hasSuffix htmlDate htmlDateInZone htpasswd
indent initial initials int int64 isAbs join kebabcase keys kindIs kindOf last list lower max maxf merge
mergeOverwrite min minf mod mul mulf mustAppend mustChunk mustCompact mustDateModify mustDeepCopy mustFirst
mustFromJson mustHas mustInitial mustLast mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind
mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit mustRest
mustReverse mustSlice mustToDate mustToJson mustToPrettyJson mustToRawJson mustUniq mustWithout
must_date_modify nindent nospace now omit osBase osClean osDir osExt osIsAbs pick pluck plural prepend push
quote randAlpha randAlphaNum randAscii randBytes randInt randNumeric regexFind regexFindAll regexMatch
regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit repeat replace rest reverse round semver
semverCompare seq set sha1sum sha256sum sha512sum shuffle slice snakecase sortAlpha split splitList splitn
squote sub subf substr swapcase ternary title toDate toDecimal toJson toPrettyJson toRawJson toString
toStrings trim trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf uniq unixEpoch
unset until untilStep untitle upper urlJoin urlParse uuidv4 values without wrap wrapWith
"""
GO = "and call eq ge gt html index js le len lt ne not or print printf println slice urlquery"


@pytest.mark.criterion("RENDER-GO")
def test_every_function_of_sprig_and_go_is_there_or_refused_with_a_remedy() -> None:
    folded = {"and", "or", "not"}
    assert set(f"{SPRIG} {GO}".split()) - folded - set(FUNCTIONS) - set(REFUSED) == set()
    assert not set(FUNCTIONS) & set(REFUSED)
    for name, reason in REFUSED.items():
        assert ";" in reason or "write" in reason, f"{name} does not say what to do instead"


@pytest.mark.criterion("RENDER-GO")
@given(st.text(max_size=200), st.integers(-5, 90), st.text(" -|", max_size=2))
def test_wrapped_text_keeps_its_words(text: str, width: int, between: str) -> None:
    templates = Templates()
    templates.meter.begin(WORKER)
    row = namespace({"t": text})
    wrapped = templates.render(f"{{{{ wrap {width} .t }}}}|", row)
    assert wrapped[:-1].replace("\n", " ").split(" ") != [] or not text
    assert wrapped[:-1].replace("\n", "").replace(" ", "") == text.replace("\n", "").replace(
        " ", ""
    )
    made = templates.render(f"{{{{ wrapWith {width} {json.dumps(between)} .t }}}}|", row)
    assert len(made) <= (len(text) + 2) * (len(between) + 2)
