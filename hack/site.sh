#!/usr/bin/env bash
# Builds the documentation site, strictly: a page without a place, or a link that leads nowhere, fails it.
#
#   hack/site.sh [FOLDER]   default: dist/site
#   PYTHON                  the interpreter that runs it (default .venv/bin/python)
#   SITE_CONFIG             another configuration than mkdocs.yml
#
# Its tools are installed from requirements-docs.lock into ${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/site, once for each lock.
set -euo pipefail
cd "$(dirname "$0")/.."

result=$(realpath -m "${1:-dist/site}")
python=${PYTHON:-.venv/bin/python}
lock=requirements-docs.lock
tools=${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/site/$(sha256sum "$lock" | cut -c1-16)-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# There in one step, or not at all: another checkout may be fetching them too.
if [ ! -d "$tools" ]; then
  mkdir -p "$(dirname "$tools")"
  "$python" -m pip install -qq --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: --target "$work/tools" -r "$lock"
  mv -T "$work/tools" "$tools" 2>/dev/null || [ -d "$tools" ]
fi

# Nothing of it asks the network: not for fonts, not for a newer version of the theme.
PYTHONPATH=$tools:$PWD NO_MKDOCS_2_WARNING=1 "$python" -P -W ignore -m mkdocs build --strict --clean \
  --config-file "${SITE_CONFIG:-mkdocs.yml}" --site-dir "$result"
echo "built $result/index.html"
