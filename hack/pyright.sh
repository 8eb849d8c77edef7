#!/usr/bin/env bash
# Runs pyright, of the release in requirements-pyright.lock, with these arguments. It is fetched once, with its Node.js, into
# ${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/pyright. basedpyright is pyright as a wheel; its own modes are not used.
#
#   PYTHON   the interpreter whose pip fetches it (default .venv/bin/python)
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
lock=$root/requirements-pyright.lock
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/pyright/$(sha256sum "$lock" | cut -c1-16)

# There in one step, or not at all: another checkout may be fetching it too.
if [ ! -d "$folder" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$(dirname "$folder")"
  "$python" -m pip install -qq --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: --target "$work/pyright" -r "$lock" >&2
  mv -T "$work/pyright" "$folder" 2>/dev/null || [ -d "$folder" ]
fi
PYTHONPATH=$folder exec "$python" -P -m basedpyright "$@"
