"""What Argo CD has to know of our kinds: a patch of its ConfigMap, made from scripts in Lua.

Argo CD's own rule holds: Lua 5.1 without libraries, so that the scripts run with its defaults. It
calculates an application's health from its immediate children alone, which is why an Instance
tells of its subresources itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apis.cloud import GROUP as CLOUD
from apis.cosmos import GROUP as COSMOS
from apis.health import PAUSED, RULES, Expected, Health, expected_conditions
from apis.tenancy import GROUP as TENANCY
from ctrlruntime.generate import to_yaml
from ctrlruntime.generate.layout import kustomization

NAME = "argocd-cm"
_CONDITIONS = """local hs = judged()
local good = hs.status == "Healthy"
local answer, seen = {}, {}
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  seen[condition.type] = true
  if condition.type == "Ready" or (answers[condition.type] and answer.type == nil) then
    answer = condition
  end
  local rule = expected[condition.type]
  if good and rule ~= nil and condition.status ~= rule[1] then
    local word = rule[3][condition.reason] or rule[2]
    if hs.status == "Healthy" or word == "Degraded" then
      hs = { status = word, message = condition.message or "" }
    end
  end
end
local old = (obj.status or {}).observedGeneration ~= (obj.metadata or {}).generation
local answered = answer.status == "True" or (answer.reason ~= nil and answer.reason == obj.status.phase)
for name, rule in pairs(expected) do
  answered = answered and (seen[name] or not rule[4])
end
if hs.status == "Healthy" and (old or not answered) then
  hs = { status = "Progressing", message = answer.message or "Waiting for the manager" }
end
return hs
"""
"""Lua that follows the tables `expected`, of each condition its status, the health of any other, that by reason, and
whether a status without it is not good, and `answers`, the conditions of which a status that is good has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Customization:
    """The scripts of some kinds of one group, by file name without suffix."""

    group: str
    kinds: tuple[str, ...]
    health: str
    discovery: str = ""
    actions: tuple[str, ...] = ()


CUSTOMIZATIONS = (
    Customization(
        group=CLOUD,
        kinds=(
            "Instance",
            "InstanceInvariants",
            "InstanceKubernetes",
            "InstanceKubernetesPVC",
            "InstanceTerraform",
            "UpgradeInstanceTask",
        ),
        health="health-cloud",
        discovery="discovery-cloud",
        actions=("pause", "resume", "retry"),
    ),
    Customization(group=CLOUD, kinds=("FleetRollout",), health="health-rollout"),
    Customization(group=COSMOS, kinds=("CosmosFullNode",), health="health-cosmos"),
    Customization(
        group=COSMOS,
        kinds=("ScheduledVolumeSnapshot", "StatefulJob"),
        health="health-cosmos",
        discovery="discovery-cosmos",
        actions=("suspend", "unsuspend"),
    ),
    Customization(
        group=TENANCY,
        kinds=("Tenant", "TenantRegistry", "TenantTemplate"),
        health="health-tenancy",
        discovery="discovery-tenancy",
        actions=("reconcile",),
    ),
)


def scripts(directory: Path) -> dict[str, str]:
    """Return the scripts in a directory, by file name without suffix."""
    return {path.stem: path.read_text() for path in sorted(directory.glob("*.lua"))}


def config_map_data(lua: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of Argo CD's ConfigMap: health of every own kind, actions of those that have any."""
    data: dict[str, str] = {}
    for each in CUSTOMIZATIONS:
        for kind in each.kinds:
            name = f"{each.group}_{kind}"
            data[f"resource.customizations.health.{name}"] = _health(kind, lua[each.health])
            if each.actions:
                data[f"resource.customizations.actions.{name}"] = _actions(each, lua)
    return data


def _health(kind: str, script: str) -> str:
    """Return a script of a kind, after which every condition that is not as it should be counts.

    So nothing is Healthy here that `manager top` does not show as good.
    """
    rows = [
        f"  {name} = {{ {_lua(each.status)}, {_lua(_word(name, each.otherwise))}, {{ {_reasons(name, each)} }}{', true' * each.always} }},"
        for name, each in sorted(expected_conditions(kind).items())
    ]
    body = "".join(f"  {line}\n" if line else "\n" for line in script.splitlines())
    expected = "\n".join(rows)
    answers = ", ".join(f"{name} = true" for name in RULES[kind].answers)
    tables = f"local expected = {{\n{expected}\n}}\nlocal answers = {{ {answers} }}\n"
    return f"local function judged()\n{body}end\n{tables}{_CONDITIONS}"


def _reasons(name: str, each: Expected) -> str:
    return ", ".join(
        f"{reason} = {_lua(_word(name, means))}" for reason, means in sorted(each.reasons.items())
    )


def _word(name: str, health: Health) -> str:
    if name == PAUSED:
        return "Suspended"
    return "Degraded" if health is Health.FAILING else "Progressing"


def _lua(text: str) -> str:
    return f'"{text}"'


def _actions(each: Customization, lua: Mapping[str, str]) -> str:
    return to_yaml(
        {
            "discovery.lua": lua[each.discovery],
            "definitions": [{"name": name, "action.lua": lua[name]} for name in each.actions],
        }
    ).removeprefix("---\n")


def argocd_files(directory: Path) -> dict[str, str]:
    """Return the generated files of the folder `argocd`, from the scripts below `directory`/lua; none without any."""
    lua = scripts(directory / "lua")
    if not lua:
        return {}
    patch = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "data": config_map_data(lua),
    }
    return {
        "argocd/argocd-cm.yaml": to_yaml(patch),
        "argocd/kustomization.yaml": kustomization(["argocd-cm.yaml"]),
    }
