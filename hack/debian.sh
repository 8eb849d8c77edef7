# shellcheck shell=bash
# Debian packages of any suite, fetched and unpacked without touching the system's own package state.
# Sourced by envtest-assets.sh and kubectl.sh; needs apt-get and dpkg, no root.

say() { printf '==> %s\n' "$*" >&2; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# cache_dir: where everything lands.
cache_dir() {
  printf '%s\n' "${CTRLRUNTIME_ENVTEST_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/ctrlruntime/envtest}"
}

# lock DIR: one provisioner at a time, because builds share their work folder.
lock() {
  mkdir -p "$1"
  exec 9>"$1/.lock"
  flock --nonblock 9 && return
  say "waiting for another run to finish"
  flock 9
}

# is_current DIR NAME...: every name is there and is what SHA256SUMS recorded when it was made.
is_current() {
  local dir=$1 name
  shift
  [[ -f $dir/SHA256SUMS ]] || return 1
  for name in "$@"; do
    (cd "$dir" && awk -v name="$name" '$2 == name { print; found = 1 } END { exit !found }' SHA256SUMS \
      | sha256sum --check --status 2>/dev/null) || return 1
  done
}

# put FILE DIR NAME: installs an executable and records its sum. The rename comes before the record, so
# that an interrupted run is repeated and never believed.
put() {
  local file=$1 dir=$2 name=$3
  mkdir -p "$dir"
  install -m 0755 "$file" "$dir/.$name.new"
  mv "$dir/.$name.new" "$dir/$name"
  {
    [[ ! -f $dir/SHA256SUMS ]] || awk -v name="$name" '$2 != name' "$dir/SHA256SUMS"
    (cd "$dir" && sha256sum "$name")
  } >"$dir/.SHA256SUMS.new"
  mv "$dir/.SHA256SUMS.new" "$dir/SHA256SUMS"
}

# debian_entry: the machine's own main Debian archive as "Field: value" lines without types and suites.
# Mirrors, proxies and keys stay the machine's choice: only the suite is ours.
debian_entry() {
  local codename file
  # shellcheck disable=SC1091
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  [[ -n $codename ]] || die "this is not a Debian machine: /etc/os-release names no codename"
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -f $file ]] || continue
    # One paragraph per entry; comments may stand between the fields.
    grep -v '^#' "$file" | awk -v codename="$codename" '
      BEGIN { RS = ""; FS = "\n" }
      !done {
        ours = 0; out = ""
        for (i = 1; i <= NF; i++) {
          if ($i ~ /^Suites:/) { n = split($i, word, /[ \t]+/); for (j = 2; j <= n; j++) if (word[j] == codename) ours = 1; continue }
          if ($i ~ /^(Types|Components|Enabled):/) continue
          out = out $i "\n"
        }
        if (ours) { printf "%s", out; done = 1 }
      }'
  done
  # The older form: deb [signed-by=...] uri suite component...
  if [[ -f /etc/apt/sources.list ]]; then
    sed -nE "s|^deb +(\[([^]]*)\] +)?([^ ]+) +$codename +.*|\3 \2|p" /etc/apt/sources.list | head -n 1 \
      | while read -r uri options; do
        printf 'URIs: %s\n' "$uri"
        [[ $options != *signed-by=* ]] || sed -E 's/.*signed-by=([^ ]+).*/Signed-By: \1/' <<<"$options"
      done
  fi
}

# debian_suite SUITE FOLDER: prepares an apt of our own in FOLDER that knows one suite, and sets APT to its
# options. Its dpkg status is empty: dependencies are then resolved in full, whatever the machine has.
debian_suite() {
  local suite=$1 folder=$2 entry
  entry=$(debian_entry)
  [[ -n $entry ]] || die "no Debian archive of this machine's release in /etc/apt"
  mkdir -p "$folder"/{sources.d,lists/partial,cache/archives/partial,debs}
  printf 'Types: deb\nSuites: %s\nComponents: main\n%s\n' "$suite" "$(head -n 4 <<<"$entry")" \
    >"$folder/sources.d/debian.sources"
  : >"$folder/status"
  APT=(-q -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$folder/sources.d"
    -o "Dir::Etc::preferences=/dev/null" -o "Dir::Etc::preferencesparts=/dev/null"
    -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o "Dir::State::status=$folder/status"
    -o "APT::Sandbox::User=$(id -un)" -o "Acquire::Languages=none" -o "Acquire::Retries=5")
  say "reading the package lists of Debian $suite"
  apt-get "${APT[@]}" update >"$folder/update.log" 2>&1 || { cat "$folder/update.log" >&2; die "apt-get update failed"; }
}

# debian_unpack FOLDER INTO PACKAGE...: downloads binary packages (apt checks their sums) and unpacks them
# into one tree. Nothing is installed.
debian_unpack() {
  local folder=$1 into=$2 deb
  shift 2
  mkdir -p "$into" "$folder/debs"
  (cd "$folder/debs" && apt-get "${APT[@]}" download "$@" >"$folder/download.log" 2>&1) \
    || { tail -n 20 "$folder/download.log" >&2; die "downloading from Debian failed"; }
  for deb in "$folder"/debs/*.deb; do
    dpkg-deb --extract "$deb" "$into"
  done
  rm -rf "$folder/debs"
}

# debian_version PACKAGE: the version the prepared suite offers, without epoch.
debian_version() {
  apt-cache "${APT[@]}" show "$1" 2>/dev/null | sed -nE 's/^Version: ([0-9]+:)?//p' | head -n 1
}
