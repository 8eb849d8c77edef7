#!/usr/bin/env bash
# Makes the OLM bundle of what config/by-system installs; its image is built with bundle.Dockerfile in that folder.
#
#   hack/bundle.sh [FOLDER]   default: dist/bundle; prints it
#   IMG                       another image of the manager
#   PYTHON                    the interpreter that runs it (default .venv/bin/python)
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-dist/bundle}
image=${IMG:-$(sed -n 's/^ *image: \(registry.example.com\/.*\)$/\1/p' dist/install-all.yaml | head -1)}
OVERLAY=by-system IMG=$image hack/install-yaml.sh --print | PYTHONPATH=$PWD "${PYTHON:-.venv/bin/python}" hack/bundle_files.py "$folder"
echo "$folder"
