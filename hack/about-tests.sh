#!/usr/bin/env bash
# Says what `make test` is about to do: how long it takes, what it installs where, how to run a part of it.
set -euo pipefail

if [ "${1:-sample}" = all ]; then
  time="every test: about 55 minutes on two cores, 20 more the first time"
else
  time="a sample of the heavy proofs: about 10 minutes on two cores, 10 more the first time"
fi
cat <<TEXT
make test, $time.
  installs  MariaDB and PostgreSQL from Debian (as root or by sudo) where they are missing;
            kubectl, API servers and packages into ${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime
  a part    .venv/bin/pytest tests/queue      make lint types check-generated
TEXT
