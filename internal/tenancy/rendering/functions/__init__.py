"""The functions templates may call: one table, used by both spellings.

Every function takes its arguments in sprig's order. `SUBJECT_FIRST` and `SUBJECT_SECOND` name those
whose subject is not the last argument, so that a Jinja filter (`value | round(2)`) passes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from internal.tenancy.rendering.functions.collections import COLLECTIONS, LOSSY_LISTS
from internal.tenancy.rendering.functions.dates import DATES
from internal.tenancy.rendering.functions.durations import DURATIONS
from internal.tenancy.rendering.functions.encodings import ENCODINGS
from internal.tenancy.rendering.functions.kinds import KINDS
from internal.tenancy.rendering.functions.mappings import MAPPINGS, MUTATING
from internal.tenancy.rendering.functions.numbers import LOSSY_NUMBERS, NUMBERS
from internal.tenancy.rendering.functions.paths import PATHS
from internal.tenancy.rendering.functions.patterns import PATTERNS
from internal.tenancy.rendering.functions.semantic_versions import VERSIONS, compare_method
from internal.tenancy.rendering.functions.texts import TEXTS

__all__ = [
    "ALIASES", "COSTS", "FUNCTIONS", "INTERNAL", "LOSSY", "MUTATING", "NEEDS_WORKER", "REFUSED",
    "SUBJECT_FIRST", "SUBJECT_SECOND", "TAKES_UNDEFINED",
]  # fmt: skip


def set_cell(value: object, cell: list[Any]) -> str:
    """Assign to a variable that is kept in a list of one."""
    cell[0] = value
    return ""


_OWN = {
    **TEXTS, **NUMBERS, **ENCODINGS, **COLLECTIONS, **MAPPINGS, **PATTERNS, **PATHS, **VERSIONS,
    **KINDS, **DURATIONS, **DATES,
}  # fmt: skip

_MUST = (
    "toJson fromJson toPrettyJson toRawJson regexMatch regexFind regexFindAll regexSplit "
    "regexReplaceAll regexReplaceAllLiteral append prepend first rest last initial reverse "
    "uniq without has slice chunk compact merge mergeOverwrite deepCopy toDate dateModify"
)
"""Functions with a `must` spelling, which is the same here: errors are always errors."""

ALIASES: Mapping[str, str] = {
    "d": "default",
    "length": "len",
    "count": "len",
    "string": "toString",
    "tojson": "toJson",
    "from_json": "fromJson",
    "b64encode": "b64enc",
    "b64decode": "b64dec",
    "unique": "uniq",
    "tuple": "list",
    "date_in_zone": "dateInZone",
    "date_modify": "dateModify",
    "must_date_modify": "dateModify",
    "push": "append",
    "biggest": "max",
    "trimall": "trimAll",
    "osBase": "base",
    "osClean": "clean",
    "osDir": "dir",
    "osExt": "ext",
    "osIsAbs": "isAbs",
    **{f"must{name[0].upper()}{name[1:]}": name for name in _MUST.split()},
    "mustPush": "append",
}
"""Other names of the same functions, Jinja's own among them."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **_OWN,
    **{alias: _OWN[name] for alias, name in ALIASES.items()},
}

_LOSSY = {**LOSSY_NUMBERS, **LOSSY_LISTS}
LOSSY: Mapping[str, Callable[..., str]] = {
    **_LOSSY,
    **{alias: _LOSSY[name] for alias, name in ALIASES.items() if name in _LOSSY},
}
"""Functions that yield something for any value, and what each lost of those that it was given."""

_FIRST = (
    "round sub div mod index get hasKey append concat coalesce printf add mul max min list cat "
    "first last eq ne lt le gt ge concatText print println quote squote dict range until "
    "untilStep seq set unset pick omit merge mergeOverwrite mustMerge mustMergeOverwrite slice "
    "mustSlice prepend mustPrepend push mustPush mustAppend without mustWithout tuple keys any "
    "all biggest htmlDateInZone addf add1f subf mulf divf maxf minf html js"
)
SUBJECT_FIRST = frozenset(_FIRST.split())
SUBJECT_SECOND = frozenset(
    name
    for name in FUNCTIONS
    if name.lower().removeprefix("must")
    in {"regexreplaceall", "regexreplaceallliteral", "regexfindall", "regexsplit", "dateinzone"}
    or name == "date_in_zone"
)

INTERNAL: Mapping[str, Callable[..., Any]] = {
    "setCell": set_cell,
    "compareMethod": compare_method,
}
"""What only translated templates call; under the prefix of Go's spelling alone."""

TAKES_UNDEFINED = frozenset({"default", "d", "empty", "coalesce", "all", "any"})
"""Functions that may see an undefined value; all others raise for it."""

NEEDS_WORKER = frozenset(
    name
    for name in FUNCTIONS
    if name.lower().startswith(("regex", "mustregex")) and name != "regexQuoteMeta"
)
"""Functions whose cost the counters cannot bound exactly."""

_ANOTHER_RESULT = "it would give another result at every rendering"
_TIME = f"{_ANOTHER_RESULT}; have the source give the time as a column"
_RANDOM = (
    f"{_ANOTHER_RESULT}; keep the value in a column, or in a Secret that is made once outside the "
    "template, and refer to it by name"
)
_CERTIFICATE = f"{_ANOTHER_RESULT}; let a resource such as cert-manager's Certificate make it"

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("env", "expandenv"),
        "the operator's environment is not open to templates; map the value to a column, or have "
        "the workload read it from a ConfigMap or Secret",
    ),
    **dict.fromkeys(("now", "ago"), _TIME),
    **dict.fromkeys(
        "uuidv4 randAlpha randAlphaNum randNumeric randAscii randInt randBytes shuffle random".split(),  # noqa: SIM905
        _RANDOM,
    ),
    **dict.fromkeys(
        "genPrivateKey genCA genCAWithKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert "  # noqa: SIM905
        "genSignedCertWithKey buildCustomCert".split(),
        _CERTIFICATE,
    ),
    **dict.fromkeys(
        ("htpasswd", "bcrypt", "encryptAES", "decryptAES", "derivePassword"),
        "passwords are not hashed, encrypted or derived in templates; keep the result in a Secret "
        "or in a sensitive column",
    ),
    "getHostByName": "templates have no access to the network; use the name itself, or a Service",
    "lookup": "templates have no access to the cluster; map the value to a column",
    "include": "its result would be worked on as text; use {{ define }} and {{ template }}",
    "tpl": "a result is never rendered again; put the template itself into the field",
    "call": "only the documented functions can be called; write the function's name",
}
"""Known functions that are left out on purpose: why, and what to do instead."""

COSTS: Mapping[str, int] = {
    **dict.fromkeys(("kebabcase", "snakecase", "camelcase"), 64),
    **dict.fromkeys(("toYaml", "quote"), 32),
    **dict.fromkeys(("title", "nospace", "urlquery", "toHost"), 16),
    **dict.fromkeys(("fromJson", "mustFromJson", "from_json", "sortAlpha"), 4),
    **dict.fromkeys(("toRawJson", "toPrettyJson", "keys", "uniq", "unique", "wrap", "wrapWith"), 8),
    **dict.fromkeys(("toDate", "mustToDate"), 512),
    **dict.fromkeys(("date", "dateInZone", "date_in_zone", "semver", "semverCompare"), 64),
    **dict.fromkeys(("html", "js", "urlParse", "urlJoin", "swapcase", "untitle", "seq"), 16),
    **dict.fromkeys(("has", "mustHas", "deepEqual", "deepCopy", "mustDeepCopy"), 8),
    **dict.fromkeys(("addf", "subf", "mulf", "divf", "printf"), 32),
}
"""Work per character of argument, where it is more than 1."""
