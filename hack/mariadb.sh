#!/usr/bin/env bash
# Makes sure that MariaDB's server binary is there. Tests start it privately; no service is started.
set -euo pipefail

command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] && exit 0
exec "$(dirname "$0")/server-package.sh" mariadb-server
