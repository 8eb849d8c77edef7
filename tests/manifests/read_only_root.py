"""Runs commands of a stage as a container does: in a root file system of its own that is read-only.

The base image's part is the machine's own, mounted read-only: `/usr`, `/etc` and what else Python needs.
Mounts exist in the command's mount namespace alone and end with it. Takes root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.manifests.dockerfile import Stage

BASE = ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
PATH = "/usr/local/bin:/usr/bin:/bin"


def refusal() -> str:
    """Return why such a root cannot be made here, or an empty text."""
    if os.geteuid() != 0:
        return "a root file system is mounted by root alone"
    if missing := [name for name in ("unshare", "chroot", "setpriv") if not shutil.which(name)]:
        return f"no {' '.join(missing)} on this machine"
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"mounts are not permitted: {done.stderr.strip()}"


def contained(stage: Stage, words: list[str], volumes: Mapping[str, Path]) -> list[str]:
    """Return a command that runs `words` there as the stage's user, in its folder and with its variables.

    `volumes`: folders and files of the machine, by their path in the container; all are read-only.
    The process keeps its number, so that signals reach it.
    """
    root = stage.root.parent / "root"
    root.mkdir(exist_ok=True)
    variables = {"PATH": PATH, "HOME": "/", **stage.environment}
    identity = [f"--reuid={stage.user}", f"--regid={stage.group}", "--clear-groups"]
    rights = ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    inner = ["setpriv", *identity, *rights, "--", "env", "-i", f"--chdir={stage.folder}"]
    inner += [f"{key}={value}" for key, value in variables.items()] + words
    script = "\n".join([*_mounts(stage, root, volumes), shlex.join(["exec", "chroot", str(root)])])
    return ["unshare", "--mount", "sh", "-euc", f'{script} "$@"', "sh", *inner]


def _mounts(stage: Stage, root: Path, volumes: Mapping[str, Path]) -> list[str]:
    lines = [f"mount -t tmpfs -o mode=755 tmpfs {root}"]
    for path in sorted({*BASE, sys.base_prefix, sys.base_exec_prefix}):
        place = Path(path)
        if place.is_symlink():
            lines.append(f"ln -s {place.readlink()} {root}{path}")
        elif place.is_dir():
            lines += _bind(place, root, path)
    lines += _bind(stage.root / "opt", root, "/opt")
    for path, place in volumes.items():
        lines += _bind(place, root, path)
    for device in DEVICES:
        lines += _bind(Path(device), root, device)[:-1]
    lines += [f"mkdir {root}/proc {root}/tmp", f"mount --rbind /proc {root}/proc"]
    return [*lines, f"mount -o remount,ro {root}"]


def _bind(place: Path, root: Path, path: str) -> list[str]:
    target = shlex.quote(f"{root}{path}")
    made = (
        f"mkdir -p {target}" if place.is_dir() else f"mkdir -p {Path(target).parent}; : >{target}"
    )
    mounted = f"mount --bind {shlex.quote(str(place))} {target}"
    return [made, mounted, f"mount -o remount,bind,ro {target}"]
