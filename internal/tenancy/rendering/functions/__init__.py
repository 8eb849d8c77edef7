"""The functions templates may call: one table, used by both spellings.

Every function takes its arguments in sprig's order. `SUBJECT_FIRST` and `SUBJECT_SECOND` name those
whose subject is not the last argument, so that a Jinja filter (`value | round(2)`) passes it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from internal.tenancy.rendering.functions.collections import COLLECTIONS
from internal.tenancy.rendering.functions.encodings import ENCODINGS
from internal.tenancy.rendering.functions.numbers import NUMBERS
from internal.tenancy.rendering.functions.patterns import PATTERNS
from internal.tenancy.rendering.functions.texts import TEXTS

_OWN = {**TEXTS, **NUMBERS, **ENCODINGS, **COLLECTIONS, **PATTERNS}

ALIASES: Mapping[str, str] = {
    "d": "default",
    "length": "len",
    "count": "len",
    "string": "toString",
    "print": "concatText",
    "tojson": "toJson",
    "from_json": "fromJson",
    "b64encode": "b64enc",
    "b64decode": "b64dec",
    "unique": "uniq",
    "mustToJson": "toJson",
    "mustFromJson": "fromJson",
    "mustRegexMatch": "regexMatch",
    "mustRegexReplaceAll": "regexReplaceAll",
}
"""Other names of the same functions, Jinja's own among them."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **_OWN,
    **{alias: _OWN[name] for alias, name in ALIASES.items()},
}

SUBJECT_FIRST = frozenset(
    "round sub div mod index get hasKey append concat coalesce printf add mul max min list cat "  # noqa: SIM905
    "first last eq ne lt le gt ge concatText print quote squote dict range until".split()
)
SUBJECT_SECOND = frozenset({"regexReplaceAll", "mustRegexReplaceAll"})

TAKES_UNDEFINED = frozenset({"default", "d", "empty", "coalesce"})
"""Functions that may see an undefined value; all others raise for it."""

NEEDS_WORKER = frozenset(
    name for name in FUNCTIONS if name.lower().startswith(("regex", "mustregex"))
)
"""Functions whose cost the counters cannot bound exactly."""

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("env", "expandenv"), "the operator's environment is not open to templates"),
    **dict.fromkeys(
        "now date dateInZone ago htmlDate uuidv4 randAlpha randAlphaNum randNumeric randAscii "  # noqa: SIM905
        "randInt randBytes shuffle random".split(),
        "it would give another result at every rendering",
    ),
    **dict.fromkeys(
        ("genPrivateKey", "genCA", "genSelfSignedCert", "genSignedCert", "htpasswd", "bcrypt"),
        "it would give another result at every rendering",
    ),
    "getHostByName": "templates have no access to the network",
    "lookup": "templates have no access to the cluster",
    "include": "named templates are not supported",
    "tpl": "a result is never rendered again",
    "call": "only the documented functions can be called",
}
"""Known functions that are left out on purpose, and why."""

COSTS: Mapping[str, int] = {
    **dict.fromkeys(("kebabcase", "snakecase", "camelcase"), 64),
    **dict.fromkeys(("toYaml", "quote", "printf"), 32),
    **dict.fromkeys(("title", "nospace", "urlquery", "toHost"), 16),
    **dict.fromkeys(("fromJson", "mustFromJson", "from_json", "uniq", "unique", "sortAlpha"), 4),
}
"""Work per character of argument, where it is more than 1."""
