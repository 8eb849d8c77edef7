#!/usr/bin/env bash
# kubectl for the tests that drive our servers with it.
#
#   kubectl.sh          provisions kubectl/1.32/kubectl (Debian 13's) and, where it can be had, kubectl/newest/kubectl
#                       (Debian unstable's, of whatever release), which one smoke test runs with
#   kubectl.sh VERSION  provisions one of them and prints its path
#
# They land in ${CTRLRUNTIME_ENVTEST_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/envtest}. What is there and
# matches its SHA256SUMS is left alone. Nothing is installed and no root is needed.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/debian.sh
source "$here/debian.sh"

ASSETS=$(cache_dir)

# kubectl VERSION SUITE: a static program, so it runs on any Debian.
kubectl() {
  local version=$1 suite=$2 dir=$ASSETS/kubectl/$1 work offered
  if ! is_current "$dir" kubectl; then
    work=$ASSETS/.kubectl-$version
    debian_suite "$suite" "$work"
    offered=$(debian_version kubectl)
    [[ $version == newest || $offered == "$version".* ]] || die "Debian $suite has kubectl $offered, not $version"
    say "downloading kubectl $offered"
    debian_unpack "$work" "$work/tree" kubectl
    put "$work/tree/usr/bin/kubectl" "$dir" kubectl
    rm -rf "$work"
  fi
  printf '%s\n' "$dir/kubectl"
}

main() {
  case ${1:-all} in
    all)
      "${BASH_SOURCE[0]}" 1.32 >/dev/null
      "${BASH_SOURCE[0]}" newest >/dev/null || say "no kubectl of Debian unstable: its smoke test is skipped"
      return
      ;;
    1.32 | newest) ;;
    *)
      sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
  # A lock of its own: nobody who wants kubectl should wait for a server to be built.
  lock "$ASSETS/kubectl"
  if [[ $1 == newest ]]; then kubectl newest sid; else kubectl "$1" trixie; fi
}

main "$@"
