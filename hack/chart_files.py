"""What the chart takes from the code and from config/: CRDs, rights, webhooks, alerts, dashboards.

python hack/chart_files.py FOLDER    writes FOLDER/files
"""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from ctrlruntime.generate import roles, to_yaml
from manager.manifests.folders import NAMESPACE, SYSTEMS, namespaced_rules, rules_of

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "config"
WATCHED = "watched"
"""Stands for every namespace that a manager of some namespaces watches."""
PEOPLE = ("admin", "editor", "viewer")


def main(folder: Path) -> None:
    """Write the files, in place of those that are there."""
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("crds", "people", "dashboards"):
        (folder / part).mkdir(parents=True)
    for path in (CONFIG / "crd" / "bases").glob("*.yaml"):
        shutil.copy(path, folder / "crds")
    for path in itertools.chain.from_iterable(
        (CONFIG / "rbac").glob(f"*_{who}_role.yaml") for who in PEOPLE
    ):
        shutil.copy(path, folder / "people")
    for path in (CONFIG / "grafana").glob("*.json"):
        shutil.copy(path, folder / "dashboards")
    for each in _documents("webhook/manifests.yaml"):
        sort = each["kind"].removesuffix("WebhookConfiguration").lower()
        (folder / f"{sort}.yaml").write_text(to_yaml([each]))
    shutil.copy(CONFIG / "prometheus" / "rules.yaml", folder / "alerts.yaml")
    guard = [(CONFIG / "guard" / name).read_text() for name in ("policy.yaml", "binding.yaml")]
    (folder / "guard.yaml").write_text("---\n".join(guard))
    (folder / "rights.yaml").write_text(to_yaml([rights()]))


def rights() -> dict[str, Any]:
    """Return the rules of every choice of systems, of the election and of webhooks."""
    (election,) = _documents("rbac/leader_election_role.yaml")
    webhooks = _documents("webhook/role.yaml")
    return {
        "all": _of(tuple(SYSTEMS)),
        **{"-".join(chosen): _of(chosen) for chosen in _choices()},
        "election": election["rules"],
        "webhooks": _by_kind(webhooks),
    }


def _choices() -> list[tuple[str, ...]]:
    names = sorted(SYSTEMS)
    return [c for n in range(1, len(names) + 1) for c in itertools.combinations(names, n)]


def _of(systems: tuple[str, ...]) -> dict[str, Any]:
    whole = roles([rule for name in systems for rule in rules_of(name)], "role")
    cluster, *limited = roles(namespaced_rules([WATCHED], systems), "role")
    rules = {role["metadata"]["namespace"]: role["rules"] for role in limited}
    return {
        **_by_kind(whole),
        "namespaced": {
            "cluster": cluster["rules"],
            "watched": rules[WATCHED],
            "own": rules[NAMESPACE],
        },
    }


def _by_kind(found: list[dict[str, Any]]) -> dict[str, Any]:
    rules = {role["kind"]: role["rules"] for role in found}
    return {"cluster": rules["ClusterRole"], "own": rules.get("Role", [])}


def _documents(path: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all((CONFIG / path).read_text()) if each]


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "files")
