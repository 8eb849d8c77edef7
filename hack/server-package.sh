#!/usr/bin/env bash
# server-package.sh PACKAGE: installs a server from Debian. Tests start it privately; no service is started.
set -euo pipefail

as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }

echo "installing $1 from Debian"
policy=/usr/sbin/policy-rc.d
made_policy=
if [ ! -e "$policy" ]; then
  # Keeps the package from starting a system-wide server that nobody here asked for.
  printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
  as_root chmod +x "$policy"
  made_policy=1
fi
trap '[ -z "$made_policy" ] || as_root rm -f "$policy"' EXIT
as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$1" >/dev/null
