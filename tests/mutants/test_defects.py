"""The defects fit the code as it is; test_seeded_defects.py tests that each is caught."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.catalogue.requirements import families
from tests.mutants.defects import Defect, defects, read_record, write_record
from tests.mutants.tree import ROOT

PROMISES = {
    "S4": "nothing is written after a restart",
    "no-reads": "objects that are as desired are not read",
    "PLAN-ONE-ROW": "a changed row writes its own tenant only",
    "STATUS-CONDITIONS": "every condition has its state",
    "drift": "changes by others are reverted",
    "ownership": "objects of other owners are left alone",
    "sigkill-at-each-write": "a kill at any write leaves no trace",
    "restore-from-backup": "restored objects are adopted again",
    "PQ-12": "laws of the queue",
    "RF-23": "laws of the store",
    "diff-laws": "laws of the difference",
    "GRAPH-ORDER": "laws of the graph",
    "RENDER-TRUNC63": "laws of the renderer",
    "APPLY-LAWS": "laws of apply",
    "BAD-UID": "bad rows are reported and the others go on",
    "BAD-1MIB": "a value too large loses nothing",
    "documents": "the code in the documents is run",
}
"""What the tenancy system promises, and the defect that breaks it."""


@pytest.mark.parametrize("defect", [pytest.param(d, id=d.key) for d in defects()])
def test_the_line_of_a_defect_is_there_once_and_changes(defect: Defect) -> None:
    text = (ROOT / defect.file).read_text()
    assert defect.apply(text) != text
    assert (ROOT / defect.test.partition("::")[0]).exists()


def test_there_are_enough_for_every_family_and_every_promise() -> None:
    ids = {defect.id for defect in defects()}
    assert len(defects()) >= 40
    keys = [defect.key for defect in defects()]
    assert len(set(keys)) == len(keys)
    assert all(key.isascii() for key in keys), "the ID of a test escapes what is not ASCII"
    assert {family.prefix for family in families()} <= {name.partition("-")[0] for name in ids}
    assert set(PROMISES) <= ids


def test_a_record_keeps_the_tests_of_defects_that_did_not_run_and_still_exist(
    tmp_path: Path,
) -> None:
    first, second, *_ = (defect.key for defect in defects())
    path = tmp_path / "caught.json"
    path.write_text(json.dumps({"gone": "tests/x.py::a", second: "tests/x.py::b", first: "old"}))
    write_record(path, {first: "tests/x.py::c"})
    assert list(read_record(path).items()) == [(first, "tests/x.py::c"), (second, "tests/x.py::b")]
    assert read_record(tmp_path / "missing.json") == {}


def test_a_line_that_is_gone_is_an_error() -> None:
    defect = Defect(id="XX-01", says="", file="x.py", old="a = 1", new="a = 2", test="t.py")
    assert defect.apply("if b:\n    a = 1\n") == "if b:\n    a = 2\n"
    for text in ("", "a = 1\na = 1\n", "a = 10\n"):
        with pytest.raises(ValueError, match="not one"):
            defect.apply(text)


def test_a_function_tells_lines_apart_that_read_the_same() -> None:
    text = "class A:\n    def f(self):\n        a = 1\n    def g(self):\n        a = 1\ndef f():\n    a = 1\n"
    defect = partial(
        Defect, id="XX-01", says="", file="x.py", old="a = 1", new="b = 2", test="t.py"
    )
    for function, line in (("A.f", 2), ("A.g", 4), ("f", 6)):
        changed = defect(function=function).apply(text).splitlines()
        assert [index for index, each in enumerate(changed) if "b = 2" in each] == [line]
    for function in ("A", "A.h", "B.f", ""):
        with pytest.raises(ValueError, match="not one"):
            defect(function=function).apply(text)
