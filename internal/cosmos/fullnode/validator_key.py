"""Scripts that keep the validator key of another node off a node's disk. Pure.

A disk that is made from a copy has all files of the node that was copied. Two nodes with one consensus key sign
twice, for which a chain removes a validator for good. So a file on each disk names the node that it was made for;
on a disk of another node the key, and the state that belongs to it, are set aside before the chain starts, which
then makes a key of its own. Nothing is deleted: the files stay beside their old place.
"""

from typing import Final

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from internal.cosmos.fullnode.toml_overlay import CONFIG_OVERLAY
from internal.cosmos.labels import pod_name

KEY: Final = "config/priv_validator_key.json"
STATE: Final = "data/priv_validator_state.json"
MARK: Final = ".disk-of"
"""File in the node's folder: namespace and name of the Pod that the disk was made for."""
SET_ASIDE: Final = ".set-aside-"
"""What follows the name of a file that was set aside; then a number."""
KEEP: Final = "keep"
"""Argument: keep the key, whose ever the disk was."""
OWN: Final = "own"
"""Argument: the claim was made empty, for this node."""
VALIDATOR_KEY: Final = "validator-key-init"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of Kubernetes on claims for which it chose the volume, or made it."""

# `files` prints where keys and states are: at their usual places, and where the configuration has them.
# `own_of` prints where its copy is while a script fills the disk: the usual ones are hidden and outside of their folders,
# which scripts remove. `aside` gives a file a name that nothing has, not even a link that leads nowhere.
_FILES: Final = rf"""overlay="$HOME/.config/{CONFIG_OVERLAY}"
value() {{
  [ ! -f "$2" ] || sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*[\"']\([^\"']*\)[\"'].*/\1/p" "$2"
}}
files() {{
  printf '%s\n' "$CHAIN_HOME/$1"
  shift
  command -v sed > /dev/null || return 0
  for config in "$CONFIG_DIR/config.toml" "$overlay"; do
    for name in "$@"; do
      value "$name" "$config" | while IFS= read -r found; do
        case "$found" in "") ;; /*) printf '%s\n' "$found" ;; *) printf '%s\n' "$CHAIN_HOME/$found" ;; esac
      done
    done
  done
}}
keys() {{ files {KEY} priv_validator_key_file key-file; }}
states() {{ files {STATE} priv_validator_state_file state-file; }}
own_of() {{
  case "$1" in
    "$CHAIN_HOME/{KEY}") printf '%s\n' "$CHAIN_HOME/.own-validator-key" ;;
    "$CHAIN_HOME/{STATE}") printf '%s\n' "$CHAIN_HOME/.own-validator-state" ;;
    *) printf '%s\n' "$1.own" ;;
  esac
}}
aside() {{
  [ -e "$1" ] || [ -L "$1" ] || return 0
  number=1
  while [ -e "$2{SET_ASIDE}$number" ] || [ -L "$2{SET_ASIDE}$number" ]; do number=$((number + 1)); done
  mv "$1" "$2{SET_ASIDE}$number"
  echo "$3: $2{SET_ASIDE}$number."
}}
"""

# A disk without the file is a copy, unless its claim was made empty: then it is of an older manager. What it last
# started with names its node: `init` writes the name of the Pod as moniker, unless overrides replace it.
# The file comes last: cut off before, all is done again.
TAKE_OVER: Final = rf"""set -eu
mark="$CHAIN_HOME/{MARK}"
{_FILES}was=""
[ ! -f "$mark" ] || was="$(cat "$mark")"
if [ -z "$was" ] && [ "${{3:-}}" = {OWN} ]; then
  moniker="$(value moniker "$CONFIG_DIR/config.toml")"
  given="$(value moniker "$overlay")"
  if [ -n "$moniker" ] && {{ [ "$moniker" = "$1" ] || [ "$moniker" = "$given" ]; }}; then was="$0"; fi
fi
if [ "$was" != "$0" ] && [ "$2" != {KEEP} ]; then
  {{ keys; states; }} | while IFS= read -r file; do
    aside "$file" "$file" "The disk is a copy of another node's, whose file is now"
    aside "$(own_of "$file")" "$file" "The disk is a copy of another node's, whose file is now"
  done
fi
if [ ! -f "$mark" ] || [ "$(cat "$mark")" != "$0" ]; then
  printf '%s\n' "$0" > "$mark.new"
  mv "$mark.new" "$mark"
fi
"""

# Copies of what the node has are whole once $RESTORING is there, and stay until it is gone: cut off anywhere, what the
# script brought is never taken for the node's own. A validator that moves gets key and state from the script, where that
# brings a key; its state alone never takes the place of the node's, by which it would sign once more.
RESTORE: Final = f"""\
{_FILES}differ() {{ [ -e "$1" ] && [ -e "$2" ] && [ "$(cat "$1")" != "$(cat "$2")" ]; }}
if [ ! -e "$RESTORING" ]; then
  {{ keys; states; }} | while IFS= read -r file; do
    own="$(own_of "$file")"
    if [ ! -e "$file" ] || differ "$own" "$file"; then aside "$own" "$file" "A copy from before is now"; fi
    if [ -e "$file" ]; then cp -p "$file" "$own"; fi
  done
  touch "$RESTORING"
fi
sh -c "$0"
moves=""
if [ "${{1:-}}" = {KEEP} ]; then
  moves="$(keys | while IFS= read -r file; do
    own="$(own_of "$file")"
    if [ -e "$file" ] && {{ [ ! -e "$own" ] || differ "$file" "$own"; }}; then echo yes; fi
  done)"
fi
{{ keys; states; }} | while IFS= read -r file; do
  own="$(own_of "$file")"
  if [ -n "$moves" ]; then
    if differ "$file" "$own"; then aside "$own" "$file" "The node's former file is now"; fi
  elif [ -e "$own" ]; then
    if differ "$file" "$own"; then aside "$file" "$file" "What the script brought is now"; fi
    if [ ! -e "$file" ]; then
      mkdir -p "${{file%/*}}"
      cp -p "$own" "$file.new"
      mv "$file.new" "$file"
    fi
  else
    aside "$file" "$file" "What the script brought is now"
  fi
done
rm "$RESTORING"
{{ keys; states; }} | while IFS= read -r file; do rm -f "$(own_of "$file")"; done
"""
"""What fills the disk by the script "$0": the node's own key stays, whatever that brings; nothing is lost."""


def take_over_arguments(
    node_set: CosmosFullNode, ordinal: int, *, own_disk: bool = False
) -> list[str]:
    """Return the arguments of TAKE_OVER for one node. `own_disk`: see has_own_disk."""
    pod = pod_name(node_set.metadata.name or "", ordinal)
    kept = KEEP if keeps_key(node_set, ordinal) else ""
    own = [OWN] if own_disk else []
    return [f"{node_set.metadata.namespace or ''}/{pod}", pod, kept, *own]


def has_own_disk(pod: Entry | None, claim: Entry | None) -> bool:
    """Whether the claim of a node is known to have been made empty: with no source, on a volume that Kubernetes chose.

    A Pod that is there keeps what it was made with: by now its disk has the file.
    """
    for container in (pod.field("spec") or {}).get("initContainers") or () if pod else ():
        if container.get("name") == VALIDATOR_KEY:
            return OWN in container.get("args", ())
    if claim is None:
        return False
    spec = claim.field("spec") or {}
    if spec.get("dataSource") or spec.get("dataSourceRef"):
        return False
    return not spec.get("volumeName") or _BOUND_BY_CONTROLLER in claim.annotations


def keeps_key(node_set: CosmosFullNode, ordinal: int) -> bool:
    """Whether a node starts with the key that its disk brings."""
    override = node_set.spec.instance_overrides.get(pod_name(node_set.metadata.name or "", ordinal))
    return override is not None and override.keep_validator_key
