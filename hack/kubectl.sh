#!/usr/bin/env bash
# kubectl, an old and a current one, for the tests that drive our servers with it.
#
#   kubectl.sh          provisions kubectl/1.20/kubectl (Debian 12's) and kubectl/1.32/kubectl (Debian 13's)
#   kubectl.sh VERSION  provisions one of them and prints its path
#
# They land in ${CTRLRUNTIME_ENVTEST_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/envtest}. What is there and
# matches its SHA256SUMS is left alone. Nothing is installed and no root is needed.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/debian.sh
source "$here/debian.sh"

ASSETS=$(cache_dir)

# kubectl VERSION SUITE PACKAGE: both are static programs, so either runs on any Debian.
kubectl() {
  local version=$1 suite=$2 package=$3 dir=$ASSETS/kubectl/$1 work offered
  if ! is_current "$dir" kubectl; then
    work=$ASSETS/.kubectl-$version
    debian_suite "$suite" "$work"
    offered=$(debian_version "$package")
    [[ $offered == "$version".* ]] || die "Debian $suite has kubectl $offered, not $version"
    say "downloading kubectl $offered"
    debian_unpack "$work" "$work/tree" "$package"
    put "$work/tree/usr/bin/kubectl" "$dir" kubectl
    rm -rf "$work"
  fi
}

main() {
  case ${1:-all} in
    1.20 | 1.32 | all) ;;
    *)
      sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
  # A lock of its own: nobody who wants kubectl should wait for a server to be built.
  lock "$ASSETS/kubectl"
  [[ ${1:-all} == 1.32 ]] || kubectl 1.20 bookworm kubernetes-client
  [[ ${1:-all} == 1.20 ]] || kubectl 1.32 trixie kubectl
  [[ $# -eq 0 || $1 == all ]] || printf '%s\n' "$ASSETS/kubectl/$1/kubectl"
}

main "$@"
