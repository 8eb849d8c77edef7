#!/usr/bin/env bash
# Packages the Helm chart: charts/ctrlruntime-manager with what it takes from the code and from config/.
#
#   hack/chart.sh [FOLDER]          default: dist; prints the path of the archive
#   hack/chart.sh --folder FOLDER   no archive: the chart's own folder, for `helm template`
#   PYTHON                          the interpreter that runs it (default .venv/bin/python)
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
helm=$(hack/helm.sh)
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' ctrlruntime/__init__.py)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chart=$work/ctrlruntime-manager
cp -r charts/ctrlruntime-manager "$chart"
cp LICENSE "$chart/LICENSE"
sed -i "s/^version: .*/version: $version/; s/^appVersion: .*/appVersion: $version/" "$chart/Chart.yaml"
PYTHONPATH=$PWD "$python" hack/chart_files.py "$chart"
if [ "${1:-}" = --folder ]; then
  mkdir -p "$2"
  cp -r "$chart" "$2/"
  echo "$2/ctrlruntime-manager"
else
  mkdir -p "${1:-dist}"
  "$helm" package "$chart" --destination "${1:-dist}" >/dev/null
  echo "${1:-dist}/ctrlruntime-manager-$version.tgz"
fi
