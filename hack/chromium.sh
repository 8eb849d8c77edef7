#!/usr/bin/env bash
# Makes sure that Chromium is there. Tests start it headless, each with a profile of its own.
set -euo pipefail

command -v chromium >/dev/null && exit 0
exec "$(dirname "$0")/server-package.sh" chromium
