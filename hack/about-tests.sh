#!/usr/bin/env bash
# Says what `make test` is about to do: how long it takes, what it installs where, how to run a part of it.
set -euo pipefail

case "${1:-sample}" in
  all) time="every test: an hour on two cores" ;;
  ci) time="what CI runs of them: 25 minutes on two cores" ;;
  *) time="a sample of the heavy proofs: 6 minutes on two cores, 3 more the first time" ;;
esac
cat <<TEXT
make test, $time.
  installs  MariaDB and PostgreSQL from Debian (as root or by sudo) where they are missing;
            kubectl, API servers and packages into ${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime
  a part    .venv/bin/pytest tests/queue      make lint types check-generated
  a change  make quick: what is nearest to it, within two minutes
TEXT
