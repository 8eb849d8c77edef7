#!/usr/bin/env bash
# Makes the virtual environment from the lock file. Does nothing when it is up to date.
#
#   PYTHON  the interpreter to make it with (default: the system's, if it is 3.11 or newer)
#   VENV    where it goes (default .venv)
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${VENV:-.venv}
lock=requirements.lock
stamp=$venv/.lock.sha256

die() {
  echo "setup: $*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "installing Debian packages takes root, and there is no sudo; as root: apt-get install python3 python3-venv"
  fi
}

apt_install() {
  command -v apt-get >/dev/null || die "no Python 3.11 or newer with venv; install one, or set PYTHON=/path/to/python3.11"
  echo "installing from Debian: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
}

# Prefer the system's interpreter: it is built with optimisations that others often lack. Debian's comes
# without ensurepip, and so without working venv, unless python3-venv is installed.
find_python() {
  local candidate
  for candidate in ${PYTHON:-/usr/bin/python3.11 python3.11 /usr/bin/python3 python3}; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
}

main() {
  local want python
  want=$(sha256sum "$lock" | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && [ -x "$venv/bin/python" ]; then
    return
  fi
  # One that was interrupted has no pip, or is not even told apart from the system's own.
  if ! "$venv/bin/python" -c 'import sys, pip; sys.exit(sys.prefix == sys.base_prefix)' 2>/dev/null; then
    python=$(find_python)
    if [ -z "$python" ]; then
      apt_install python3 python3-venv
      python=$(find_python)
    fi
    [ -n "$python" ] || die "no Python 3.11 or newer with venv; install one, or set PYTHON=/path/to/python3.11"
    echo "making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
  fi
  echo "installing the locked packages into $venv (a minute or so, only this once)"
  # They are kept beside: tests make environments of their own from them. To ask an index for one package
  # takes pip longer than to install it.
  local pip=("$venv/bin/python" -m pip) quiet=(-qq --disable-pip-version-check)
  # Debian's pip takes twice as long as the one of the lock file.
  awk '/^pip==/ { on = 1; print; next } /^[^ ]/ { on = 0 } on' "$lock" >"$venv/pip.lock"
  [ ! -s "$venv/pip.lock" ] || "${pip[@]}" install "${quiet[@]}" --require-hashes -r "$venv/pip.lock"
  rm -rf "$venv/wheels"
  "${pip[@]}" download "${quiet[@]}" --no-deps --require-hashes --dest "$venv/wheels" -r "$lock"
  "${pip[@]}" install "${quiet[@]}" --require-hashes --no-index --find-links "$venv/wheels" -r "$lock"
  # The checkout itself is importable, as an editable install would make it.
  pwd >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ctrlruntime-checkout.pth"
  echo "$want" >"$stamp"
}

main
