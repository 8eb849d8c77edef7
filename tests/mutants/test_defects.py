"""The defects fit the code as it is; whether each is caught is for `make mutants` to say."""

from __future__ import annotations

import pytest

from tests.catalogue.requirements import families
from tests.mutants.defects import Defect, defects
from tests.mutants.tree import ROOT

PROMISES = {
    "S4": "nothing is written after a restart",
    "no-reads": "what is as desired is not asked for",
    "PLAN-ONE-ROW": "a changed row writes its own tenant only",
    "STATUS-CONDITIONS": "every condition says what is",
    "drift": "what others change is put back",
    "ownership": "what is not ours is left alone",
    "sigkill-at-each-write": "a kill at any write leaves no trace",
    "restore-from-backup": "what was restored is taken up again",
    "PQ-12": "laws of the queue",
    "RF-23": "laws of the store",
    "diff-laws": "laws of the difference",
    "GRAPH-ORDER": "laws of the graph",
    "RENDER-TRUNC63": "laws of the renderer",
    "APPLY-LAWS": "laws of apply",
    "BAD-UID": "bad rows are told and the others go on",
    "BAD-1MIB": "a value too large loses nothing",
    "documents": "what the documents show is run",
}
"""What the tenancy system promises, and the defect that breaks it."""


@pytest.mark.parametrize("defect", [pytest.param(d, id=f"{d.id}: {d.says}") for d in defects()])
def test_the_line_of_a_defect_is_there_once_and_changes(defect: Defect) -> None:
    text = (ROOT / defect.file).read_text()
    assert defect.apply(text) != text
    assert (ROOT / defect.test.partition("::")[0]).exists()


def test_there_are_enough_for_every_family_and_every_promise() -> None:
    ids = {defect.id for defect in defects()}
    assert len(defects()) >= 40
    assert {family.prefix for family in families()} <= {name.partition("-")[0] for name in ids}
    assert set(PROMISES) <= ids


def test_a_line_that_is_gone_is_an_error() -> None:
    defect = Defect(id="XX-01", says="", file="x.py", old="a = 1", new="a = 2", test="t.py")
    assert defect.apply("if b:\n    a = 1\n") == "if b:\n    a = 2\n"
    for text in ("", "a = 1\na = 1\n", "a = 10\n"):
        with pytest.raises(ValueError, match="not one"):
            defect.apply(text)
