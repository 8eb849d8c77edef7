#!/usr/bin/env bash
# Makes the virtual environment from the lock file. Does nothing when it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${VENV:-.venv}
lock=requirements.lock
stamp=$venv/.lock.sha256

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

apt_install() {
  echo "installing from Debian: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

# Prefer the system's interpreter: it is built with optimisations that others often lack.
find_python() {
  local candidate
  for candidate in ${PYTHON:-} /usr/bin/python3.11 python3.11 /usr/bin/python3 python3; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
}

main() {
  local want
  want=$(sha256sum "$lock" | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && [ -x "$venv/bin/python" ]; then
    return
  fi
  local python
  python=$(find_python)
  if [ -z "$python" ]; then
    apt_install python3.11 python3.11-venv
    python=$(find_python)
  fi
  [ -n "$python" ] || { echo "no Python 3.11 or newer with ensurepip; set PYTHON=/path/to/python3.11" >&2; exit 1; }
  echo "making $venv with $($python --version)"
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
  # The checkout itself is importable, as an editable install would make it.
  pwd >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ctrlruntime-checkout.pth"
  echo "$want" >"$stamp"
}

main
