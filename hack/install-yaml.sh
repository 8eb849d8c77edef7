#!/usr/bin/env bash
# Builds the installations in one file: dist/install.yaml, tenancy alone, from config/install-tenancy; and
# dist/install-all.yaml, all systems, from config/install.
#
#   hack/install-yaml.sh           writes them
#   hack/install-yaml.sh --check   writes nothing; fails with a diff if a file has drifted
#   IMG=... hack/install-yaml.sh --print   prints one with another image of the manager
#
# OVERLAY: the folder of config/ to print, default install-tenancy.
set -euo pipefail
cd "$(dirname "$0")/.."

kubectl=$(hack/kubectl.sh 1.32)
made=$(mktemp)
trap 'rm -f "$made"' EXIT
if [ "${1:-}" = --print ]; then
  "$kubectl" kustomize "config/${OVERLAY:-install-tenancy}" >"$made"
  sed "s|^\( *image: \)registry.example.com/ctrlruntime-manager:.*|\1${IMG:?}|" "$made"
  exit
fi
for pair in install-tenancy=install install=install-all; do
  file=dist/${pair#*=}.yaml
  "$kubectl" kustomize "config/${pair%=*}" >"$made"
  if [ "${1:-}" = --check ]; then
    diff -u "$file" "$made" || {
      echo "$file has drifted from config/${pair%=*}: run hack/install-yaml.sh" >&2
      exit 1
    }
  else
    mkdir -p dist
    cp "$made" "$file"
  fi
done
