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

# A disk without the file is a copy, unless its claim was made empty: then it is of an older manager. What it last
# started with names its node: `init` writes the name of the Pod as moniker, unless overrides replace it.
# The file comes last: cut off before, all is done again.
TAKE_OVER: Final = rf"""set -eu
mark="$CHAIN_HOME/{MARK}"
overlay="$HOME/.config/{CONFIG_OVERLAY}"
value() {{
  [ ! -f "$2" ] || sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*[\"']\([^\"']*\)[\"'].*/\1/p" "$2"
}}
set_aside() {{
  case "$1" in "") return ;; /*) file="$1" ;; *) file="$CHAIN_HOME/$1" ;; esac
  [ -e "$file" ] || [ -L "$file" ] || return 0
  number=1
  while [ -e "$file{SET_ASIDE}$number" ]; do number=$((number + 1)); done
  mv "$file" "$file{SET_ASIDE}$number"
  echo "The disk is a copy of another node's: $file is now $file{SET_ASIDE}$number."
}}
was=""
[ ! -f "$mark" ] || was="$(cat "$mark")"
if [ -z "$was" ] && [ "${{3:-}}" = {OWN} ]; then
  moniker="$(value moniker "$CONFIG_DIR/config.toml")"
  given="$(value moniker "$overlay")"
  if [ -n "$moniker" ] && {{ [ "$moniker" = "$1" ] || [ "$moniker" = "$given" ]; }}; then was="$0"; fi
fi
if [ "$was" != "$0" ] && [ "$2" != {KEEP} ]; then
  set_aside {KEY}
  set_aside {STATE}
  for config in "$CONFIG_DIR/config.toml" "$overlay"; do
    for name in priv_validator_key_file priv_validator_state_file key-file state-file; do
      set_aside "$(value "$name" "$config")"
    done
  done
fi
if [ ! -f "$mark" ] || [ "$(cat "$mark")" != "$0" ]; then
  printf '%s\n' "$0" > "$mark.new"
  mv "$mark.new" "$mark"
fi
"""

RESTORE: Final = f"""\
key="$CHAIN_HOME/{KEY}" own="$CHAIN_HOME/.own-validator-key"
if [ ! -e "$RESTORING" ] && [ -e "$key" ]; then cp -p "$key" "$own"; fi
touch "$RESTORING"
sh -c "$0"
if [ -e "$own" ]; then mv "$own" "$key"; elif [ -e "$key" ]; then mv "$key" "$key{SET_ASIDE}1"; fi
"""
"""Around a script that fills the disk: the node's own key stays, whatever the script brings."""


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
