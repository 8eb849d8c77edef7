#!/usr/bin/env bash
# Writes the manager's bill of materials, CycloneDX 1.6: the packages that the image has, with the hashes of the lock.
#
#   hack/sbom.sh [FILE]     default: dist/ctrlruntime-manager.cdx.json
#   PYTHON                  the interpreter to make the tool's environment with (default .venv/bin/python)
#
# Its tool is installed from requirements-sbom.lock into ${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/sbom, once for each lock.
# The same commit gives the same bytes; SOURCE_DATE_EPOCH sets its date.
set -euo pipefail
cd "$(dirname "$0")/.."

result=${1:-dist/ctrlruntime-manager.cdx.json}
python=${PYTHON:-.venv/bin/python}
lock=requirements-sbom.lock
tool=${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/sbom/$(sha256sum "$lock" | cut -c1-16)-$("$python" -c 'import sys; print(sys.implementation.cache_tag)')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# There in one step, or not at all: a virtual environment may not be moved, a folder of packages may.
if [ ! -d "$tool" ]; then
  mkdir -p "$(dirname "$tool")"
  "$python" -m pip install -qq --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: --target "$work/tool" -r "$lock"
  mv -T "$work/tool" "$tool" 2>/dev/null || [ -d "$tool" ]
fi

"$python" hack/runtime-lock.py requirements.lock pyproject.toml >"$work/runtime.lock"
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' ctrlruntime/__init__.py)
sed "s/^dynamic = .*/version = \"$version\"/" distributions/manager/pyproject.toml >"$work/pyproject.toml"
mkdir -p "$(dirname "$result")"
# The tool warns that a lock has no graph of what requires what, which is so.
PYTHONPATH=$tool "$python" -P -W ignore -m cyclonedx_py requirements --pyproject "$work/pyproject.toml" \
  --output-reproducible --spec-version 1.6 --output-format JSON --output-file "$result" "$work/runtime.lock"
