"""Stacks read the Secrets of their own namespaces unless a flag lifts that."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from manager.cli import main
from manager.commands.operator import operator
from manager.commands.run import run
from manager.options import RunOptions

pytestmark = pytest.mark.criterion("S-F6")


@pytest.mark.parametrize("command", [run, operator], ids=["run", "operator"])
def test_the_flag_of_the_restriction_is_accepted_with_what_replaces_it(
    command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag, lifted in (("--restrict-hub-secrets", False), ("--unrestricted-hub-secrets", True)):
        given = command.make_context("x", [flag]).params
        assert given["unrestricted_hub_secrets"] is lifted
        assert "restrict_hub_secrets" not in given
        assert ("is the default, leave it out" in capsys.readouterr().err) is not lifted


def test_the_restriction_is_the_default_and_its_opposite_is_for_data_planes() -> None:
    assert not RunOptions().unrestricted_hub_secrets
    done = CliRunner().invoke(main, ["run", "--unrestricted-hub-secrets"])
    assert done.exit_code == 2
    assert "--unrestricted-hub-secrets needs --data-plane-kubeconfig" in done.output
