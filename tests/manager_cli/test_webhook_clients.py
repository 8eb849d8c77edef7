"""The flag `--webhook-client-ca`: whom the webhooks of `manager run` let in."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ctrlruntime.envtest.server.certificates import Authority
from manager.cli import main
from manager.commands import run as run_command
from manager.options import RunOptions


@pytest.mark.criterion("S-F26")
def test_the_authority_of_clients_reaches_the_server_and_one_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[RunOptions] = []

    async def run(options: RunOptions) -> None:
        seen.append(options)

    monkeypatch.setattr(run_command, "run_manager", run)
    authority, text = tmp_path / "clients.crt", tmp_path / "text.crt"
    authority.write_bytes(Authority("clients").ca_data)
    text.write_text("no certificate")
    given = CliRunner().invoke(main, ["run", "--webhook-client-ca", str(authority)])
    assert given.exit_code == 0, given.output
    assert seen[0].manager_options().webhook.client_ca == authority
    refused = CliRunner().invoke(main, ["run", "--webhook-client-ca", str(text)])
    assert refused.exit_code == 2
    assert "text.crt has no certificates in PEM" in refused.output
