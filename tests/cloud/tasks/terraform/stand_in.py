"""Stands in for the terraform binary: the commands that the task uses, as documented, with -json lines.

https://developer.hashicorp.com/terraform/cli/commands and /terraform/internals/machine-readable-ui.
Resources are the module blocks of the configuration. What it is told to do wrong is in STAND_IN.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn


def say(kind: str, message: str, **more: object) -> None:
    line = {"@level": "info", "@message": message, "@module": "terraform.ui", "type": kind, **more}
    print(json.dumps(line), flush=True)


def fail(summary: str, detail: str = "") -> NoReturn:
    diagnostic = {"severity": "error", "summary": summary, "detail": detail}
    say("diagnostic", f"Error: {summary}", diagnostic=diagnostic)
    sys.exit(1)


def configured() -> dict[str, Any]:
    if not Path(".terraform").is_dir():
        fail("Backend initialization required, please run init")
    found: dict[str, Any] = json.loads(Path("main.tf.json").read_text())
    return found


def state_path(document: dict[str, Any]) -> Path:
    return Path(document["terraform"]["backend"]["local"]["path"])


def state_of(document: dict[str, Any]) -> dict[str, Any]:
    path = state_path(document)
    found: dict[str, Any] = {"digest": "", "outputs": {}}
    return json.loads(path.read_text()) if path.exists() else found


def plan(arguments: list[str]) -> None:
    document = configured()
    state = state_of(document)
    destroy = "-destroy" in arguments
    module = json.dumps(document.get("module", {}), sort_keys=True)
    digest = "" if destroy else hashlib.sha256(module.encode()).hexdigest()
    if os.environ.get("STAND_IN") == "plan":
        fail("Invalid value", "machine type x is not known")
    if os.environ.get("STAND_IN") == "leak":
        told = [os.environ.get(name, "") for name in ("GOOGLE_CREDENTIALS", "FROM_FILE")]
        print(f"credentials: {told}", file=sys.stderr, flush=True)
        fail("Invalid credentials", " and ".join(told))
    if os.environ.get("STAND_IN") == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("STAND_IN") == "long":
        print("x" * (80 << 20), flush=True)
    if os.environ.get("STAND_IN") == "locked":
        fail("Error acquiring the state lock", "Who: ada@laptop\nCreated: 2026-01-01")
    there = bool(state["digest"])
    same = digest == state["digest"]
    changes = {
        "add": 0 if there or same else 2,
        "change": 1 if there and not same and not destroy else 0,
        "remove": 2 if there and destroy else 0,
        "operation": "plan",
    }
    out = next(each for each in arguments if each.startswith("-out="))
    Path(out.removeprefix("-out=")).write_text(json.dumps({"digest": digest, "changes": changes}))
    say("change_summary", "Plan", changes=changes)
    sys.exit(0 if same else 2)


def show(arguments: list[str]) -> None:
    """The stored plan: two resources that are deleted, or one that is replaced."""
    if os.environ.get("STAND_IN") == "show":
        print("not JSON")
        sys.exit(0)
    assert arguments[0] == "-json"
    changes = json.loads(Path(arguments[-1]).read_text())["changes"]
    actions = [["delete"]] * changes["remove"] + [["create"]] * changes["add"]
    if changes["change"]:
        replaced = os.environ.get("STAND_IN") == "replace"
        actions.append(["delete", "create"] if replaced else ["update"])
    found = [
        {"address": f"module.instance.thing.{number}", "change": {"actions": each}}
        for number, each in enumerate(actions)
    ]
    print(json.dumps({"format_version": "1.2", "resource_changes": found}))


def apply(arguments: list[str]) -> None:
    document = configured()
    planned = json.loads(Path(arguments[-1]).read_text())
    mode = os.environ.get("STAND_IN")
    if mode == "apply":
        say("apply_start", "module.instance: Creating...")
        fail("Quota exceeded", "CPUS in us-central1")
    if mode == "slow":
        linger()
    resource = {"addr": "module.instance.terraform_data.main"}
    say("apply_complete", "Creation complete", hook={"resource": resource})
    declared = document.get("output", {}) if planned["digest"] else {}
    outputs = {
        name: {"sensitive": each.get("sensitive", False), "type": "string", "value": f"<{name}>"}
        for name, each in declared.items()
    }
    path = state_path(document)
    path.write_text(json.dumps({"digest": planned["digest"], "outputs": outputs}))
    say("change_summary", "Apply complete!", changes={**planned["changes"], "operation": "apply"})


def linger() -> None:
    """Work on until it is interrupted, and then end in good order."""

    def interrupted(*_: object) -> None:
        Path(os.environ["STAND_IN_MARK"]).write_text("interrupted")
        sys.exit(1)

    signal.signal(signal.SIGINT, interrupted)
    say("apply_complete", "half", hook={"resource": {"addr": "half"}})
    while True:
        signal.pause()


def main() -> None:
    command, *arguments = sys.argv[1:]
    if command == "init":
        Path(".terraform").mkdir(exist_ok=True)
        Path(os.environ["STAND_IN_MARK"]).write_text(json.dumps(dict(os.environ)))
        if os.environ.get("STAND_IN") == "init":
            print("Error: Failed to query available provider packages", file=sys.stderr)
            sys.exit(1)
    elif command == "plan":
        plan(arguments)
    elif command == "apply":
        apply(arguments)
    elif command == "show":
        show(arguments)
    elif command == "output":
        print(json.dumps(state_of(configured())["outputs"], indent=2))
    else:
        sys.exit(f"no such command: {command}")


if __name__ == "__main__":
    main()
