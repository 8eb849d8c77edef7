#!/usr/bin/env bash
# Makes the virtual environment from the lock file. Does nothing when it is up to date.
#
#   PYTHON  the interpreter to make it with (default: the system's, if it is 3.11 or newer)
#   VENV    where it goes (default .venv)
#
# The packages are kept in ${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/wheels, for the next environment.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${VENV:-.venv}
lock=requirements.lock
stamp=$venv/.lock.sha256

die() {
  echo "setup: $*" >&2
  exit 1
}

# explain: what to do where packages could not be fetched. A failure ends the script wherever it is, so this is its trap.
explain() {
  local status=$?
  [ -z "${ticker:-}" ] || kill "$ticker" 2>/dev/null || true
  if [ "$status" -ne 0 ] && [ -n "${fetching:-}" ]; then
    cat >&2 <<TEXT
setup: the packages of $lock could not be fetched (pip's reason is above).
  behind a proxy:   export HTTPS_PROXY=http://proxy:3128
  from a mirror:    export PIP_INDEX_URL=https://mirror/simple
  without network:  copy $kept from a machine with the same Python that has run this script
TEXT
  fi
}

# show_time: says every ten seconds that packages are still coming; pip saves them all at its end.
show_time() {
  (
    exec 8<> <(:)
    while true; do
      read -r -t 10 -u 8 || true
      echo "  still fetching after $SECONDS s"
    done
  ) &
  ticker=$!
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
  for candidate in ${PYTHON:-/usr/bin/python3.11 python3.11 /usr/bin/python3 python3 python3.12 python3.13 python3.14}; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
}

# In the environment, as it will be used.
python() {
  "$venv/bin/python" "$@"
}

# pip COMMAND...: the one that is kept with the packages, or else whatever Python brings.
pip() {
  if [ -d "$wheels/pip" ]; then
    python "$wheels/pip" "$@" -qq --disable-pip-version-check
  else
    python -m pip --version >/dev/null 2>&1 || python -m ensurepip --default-pip >/dev/null
    python -m pip "$@" -qq --disable-pip-version-check
  fi
}

# fetch: all packages of the lock file. What pip asks of an index takes it longer than to install what it gets,
# and Debian's pip takes twice as long as the one of the lock file.
fetch() {
  local work=$wheels.$$
  rm -rf "$work"
  mkdir -p "$work"
  fetching=1
  show_time
  awk '/^pip==/ { on = 1; print; next } /^[^ ]/ { on = 0 } on' "$lock" >"$work/pip.lock"
  [ ! -s "$work/pip.lock" ] || pip install --require-hashes -r "$work/pip.lock"
  pip download --no-deps --require-hashes --dest "$work" -r "$lock"
  # Without what tells that it is installed: in the environment it is to be installed.
  local own=("$work"/pip-*.whl)
  [ ! -f "${own[0]}" ] || python -m zipfile -e "${own[0]}" "$work/unpacked"
  [ ! -d "$work/unpacked" ] || mv "$work/unpacked/pip" "$work/pip"
  rm -rf "$work/unpacked" "$work/pip.lock"
  # There in one step, or not at all: another checkout may be fetching them too.
  mv -T "$work" "$wheels" 2>/dev/null || rm -rf "$work"
  kill "$ticker" 2>/dev/null || true
  fetching='' ticker=''
}

# install_kept: from what is kept. Hashes are checked again.
install_kept() {
  (unset PIP_FIND_LINKS && pip install --no-compile --require-hashes --no-index --find-links "$wheels" -r "$lock") || return
  # On all cores; not the client that is imported by a few kubeconfigs only, which is as much as all others. Where there
  # is no /dev/shm, the modules are compiled as they are imported.
  python -m compileall -q -j 0 -x '/(kubernetes_asyncio|mypy|mypyc)/' "$venv/lib" >/dev/null 2>&1 || true
}

make_environment() {
  local found
  found=$(find_python)
  if [ -z "$found" ]; then
    apt_install python3 python3-venv
    found=$(find_python)
  fi
  [ -n "$found" ] || die "no Python 3.11 or newer with venv; install one, or set PYTHON=/path/to/python3.11"
  echo "making $venv with $("$found" --version)"
  "$found" -m venv --clear --without-pip "$venv"
}

# install_command NAME MODULE: the programs, as documents and messages name them.
install_command() {
  printf '#!/bin/sh\nexec "$(dirname "$0")/python" -m %s "$@"\n' "$2" >"$venv/bin/$1.$$"
  chmod 755 "$venv/bin/$1.$$"
  mv "$venv/bin/$1.$$" "$venv/bin/$1"
}

install_commands() {
  install_command manager manager
  install_command ctrlruntime ctrlruntime.cli
}

main() {
  local want
  kept=${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/wheels
  trap explain EXIT
  want=$(sha256sum "$lock" | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && [ -x "$venv/bin/python" ]; then
    [ -x "$venv/bin/ctrlruntime" ] || install_commands
    return
  fi
  # One that was interrupted is not even told apart from the system's own.
  if ! python -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)' 2>/dev/null; then
    make_environment
  fi
  echo "installing the locked packages into $venv (a minute or so, only this once)"
  wheels=$kept/$want-$(python -c 'import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform(), sep="-")')
  [ -d "$wheels" ] || fetch
  if ! install_kept; then
    echo "fetching the packages again: $wheels cannot be installed"
    rm -rf "$wheels"
    fetch
    install_kept
  fi
  # Tests make environments of their own from them. Those of old lock files go.
  rm -rf "$venv/wheels"
  ln -s "$wheels" "$venv/wheels"
  touch "$wheels"
  find "$kept" -mindepth 1 -maxdepth 1 -mtime +60 -exec rm -rf {} +
  # The checkout itself is importable, as an editable install would make it.
  pwd >"$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ctrlruntime-checkout.pth"
  install_commands
  echo "$want" >"$stamp"
}

main
