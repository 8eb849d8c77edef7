#!/usr/bin/env bash
# Builds dist/install.yaml, the whole installation in one file, from config/install.
#
#   hack/install-yaml.sh           writes it
#   hack/install-yaml.sh --check   writes nothing; fails with a diff if the file has drifted
#   IMG=... hack/install-yaml.sh --print   prints it with another image of the manager
#
# OVERLAY: another folder of config/ than install.
set -euo pipefail
cd "$(dirname "$0")/.."

kubectl=$(hack/kubectl.sh 1.32)
made=$(mktemp)
trap 'rm -f "$made"' EXIT
"$kubectl" kustomize "config/${OVERLAY:-install}" >"$made"
if [ "${1:-}" = --print ]; then
  sed "s|^\( *image: \)registry.example.com/ctrlruntime-manager:.*|\1${IMG:?}|" "$made"
elif [ "${1:-}" = --check ]; then
  diff -u dist/install.yaml "$made" || {
    echo "dist/install.yaml has drifted from config/install: run hack/install-yaml.sh" >&2
    exit 1
  }
else
  mkdir -p dist
  cp "$made" dist/install.yaml
fi
