#!/usr/bin/env bash
# Makes sure that PostgreSQL's server binaries are there. Tests start it privately; no service is started.
set -euo pipefail

command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && exit 0
exec "$(dirname "$0")/server-package.sh" postgresql
