"""Peers to compare with: not dependencies of ours, so each is installed beside, once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from ctrlruntime.envtest.assets import cache_folder

KOPF = "1.45.2"
OPERATOR = Path(__file__).with_name("kopf_operator.py")
ADAPTER_OPERATOR = Path(__file__).with_name("adapter_operator.py")


def kopf_command(namespace: str) -> list[str]:
    """Run the kopf operator in one namespace."""
    kopf = installed(f"kopf=={KOPF}") / "bin" / "kopf"
    return [str(kopf), "run", "--quiet", "--standalone", "--namespace", namespace, str(OPERATOR)]


def adapter_command(namespace: str) -> list[str]:
    """Run the same handler on `ctrlruntime.kopf`."""
    program = [sys.executable, "-m", "ctrlruntime.kopf", "run", "--quiet", "--name", "bench"]
    return [*program, "--namespace", namespace, str(ADAPTER_OPERATOR)]


def kopf_environment(kubeconfig: Path, workers: int) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "BENCH_WORKERS": str(workers)}


def installed(requirement: str) -> Path:
    """A virtual environment in the cache folder with one package and uvloop."""
    folder = cache_folder().parent / "bench" / requirement.replace("==", "-")
    done = folder / ".installed"
    if not done.exists():
        click.echo(f"installing {requirement} into {folder}", err=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, requirement, "uvloop"], check=True)
        done.touch()
    return folder
