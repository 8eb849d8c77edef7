"""Overlays upon what the chain's `init` made."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from internal.cosmos.sidecar.config_merge import BadConfig, merge_config
from manager.commands.node import node


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    base, overlays, target = (tmp_path / name for name in ("base", "overlays", "config"))
    base.mkdir()
    overlays.mkdir()
    (base / "config.toml").write_text(
        '# Of the chain.\nmoniker = "a"\n[p2p]\nladdr = "x"\npex = true\n'
    )
    (overlays / "config-overlay.toml").write_text('log_level = "info"\n[p2p]\npex = false\n')
    (base / "app.toml").write_text("halt-height = 0\n")
    (overlays / "app-overlay.toml").write_text("halt-height = 9\n[api]\nenable = true\n")
    return base, overlays, target


def test_overlays_go_over_what_init_made(folders: tuple[Path, Path, Path]) -> None:
    base, overlays, target = folders
    assert merge_config(base, overlays, target) == [target / "config.toml", target / "app.toml"]
    assert tomllib.loads((target / "config.toml").read_text()) == {
        "moniker": "a",
        "log_level": "info",
        "p2p": {"laddr": "x", "pex": False},
    }
    assert tomllib.loads((target / "app.toml").read_text()) == {
        "halt-height": 9,
        "api": {"enable": True},
    }
    assert sorted(path.name for path in target.iterdir()) == ["app.toml", "config.toml"]


def test_a_file_that_init_does_not_make_is_made_of_its_overlay(
    folders: tuple[Path, Path, Path],
) -> None:
    base, overlays, target = folders
    (base / "app.toml").unlink()
    merge_config(base, overlays, target)
    assert tomllib.loads((target / "app.toml").read_text())["halt-height"] == 9


def test_what_is_no_toml_leaves_the_file_from_before(folders: tuple[Path, Path, Path]) -> None:
    base, overlays, target = folders
    merge_config(base, overlays, target)
    before = (target / "config.toml").read_text()
    (base / "config.toml").write_text("= broken")
    with pytest.raises(BadConfig, match=r"config\.toml"):
        merge_config(base, overlays, target)
    assert (target / "config.toml").read_text() == before


def test_the_command(folders: tuple[Path, Path, Path]) -> None:
    base, overlays, target = folders
    arguments = ["config-merge", f"--base-dir={base}", f"--overlay-dir={overlays}"]
    done = CliRunner().invoke(node, arguments, env={"CONFIG_DIR": str(target)})
    assert done.exit_code == 0, done.output
    assert (target / "config.toml").exists()
    (overlays / "app-overlay.toml").write_text("= broken")
    failed = CliRunner().invoke(node, arguments, env={"CONFIG_DIR": str(target)})
    assert failed.exit_code == 1
    assert "app.toml with app-overlay.toml" in failed.output
