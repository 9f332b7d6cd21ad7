# Sourced by ./dev and by the programs beside it: goes to the root of the repository, installs missing packages, configures and builds.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build

fail() {
  echo "dev: $*" >&2
  exit 2
}

# dpkg-dev tells Meson where Debian keeps libraries. Without it `meson install` uses a lib64 that is on no path.
build_packages=(g++ meson ninja-build pkg-config dpkg-dev cmake libuv1-dev libboost-dev libmimalloc-dev libgtest-dev libgmock-dev
  libbenchmark-dev libcli11-dev libsqlite3-dev libpq-dev postgresql pgbouncer nlohmann-json3-dev libssl-dev systemtap-sdt-dev)
# the libraries that the benchmarks compare with, and the one that writes their figures
bench_packages=("${build_packages[@]}" libevent-dev libev-dev)
# further peers of the benchmarks: only ./dev bench --peers installs them, and without them they are skipped
peer_packages=(libabsl-dev libnetty-java)
# the peers of durable_bench run on these; npm may also come from elsewhere
npm_packages=(nodejs npm)
redis_packages=(redis-server)
# the clients that the tests of timer_server run; node may also come from elsewhere
client_packages=(curl wrk slowhttptest sqlite3)
command -v node >/dev/null || client_packages+=(nodejs)
# The tests of what they show. Each renamed member of ours may break the printers of gdb, so it runs in every `./dev test`. bpftrace needs
# root, and runs only with --long.
inspection_packages=(gdb binutils)
tracing_packages=(bpftrace)
# the crash harness sets the wall clock of a process with it
clock_packages=(faketime)

# looks at the site of ./dev docs
browser_packages=(chromium chromium-driver python3-selenium)

# checks the alert rules and the dashboard
monitoring_packages=(prometheus)

# needs PACKAGE...: installs the missing ones
needs() {
  if ! command -v dpkg-query >/dev/null; then
    command -v meson >/dev/null && command -v pkg-config >/dev/null && pkg-config --exists libuv && return
    fail "this is not a Debian system: install the equivalents of ${*} first"
  fi
  local missing=() package
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "packages are missing, and there is no sudo; run as root:
  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  echo "dev: installing, which takes some minutes: ${missing[*]}"
  "${as_root[@]}" apt-get -qq update
  # Tests start servers of their own. Debian would start one more, unless its settings say otherwise before the installation.
  if [[ " ${missing[*]} " == *" postgresql "* ]]; then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends postgresql-common >/dev/null
    "${as_root[@]}" sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# configure DIRECTORY MESON_OPTION...: configures once; later builds follow changes by themselves
configure() {
  local directory=$1
  shift
  if [[ ! -f $directory/build.ninja ]]; then
    # in CI nobody debugs, and a build without debugging information takes less time
    local ours=(-Dwerror=false)
    [[ ${CI:-} == true ]] && ours=(-Dwerror=true -Ddebug=false)
    meson setup "$directory" "${ours[@]}" "$@" >"$directory.log" 2>&1 || {
      cat "$directory.log" >&2
      fail "meson could not configure $directory, as shown above"
    }
  fi
}

# build DIRECTORY [TARGET...]
build() {
  # Not to stdout, where the benchmarks write their figures. ninja is quiet, and a build may take minutes.
  echo "dev: building in $1" >&2
  ninja --quiet -C "$1" "${@:2}" >&2 || fail "the build in $1 failed, as shown above"
}

# Meson's options by purpose. With less optimisation and only line numbers a sanitizer's build compiles in a third of the time.
core_only=(-Duv=disabled)
checked=(-Dbuildtype=debugoptimized -Db_ndebug=false)
tests_only=(-Dbench=disabled -Dexamples=disabled)
# In CI each build is from nothing, and a unity build reads the headers once for many files.
unity=()
[[ ${CI:-} != true ]] || unity=(-Dunity=on -Dunity_size=8)
# clang's check of vptr opens a pipe, and some tests leave no descriptor for it.
sanitized=(-Db_lundef=false -Doptimization=1 '-Dcpp_args=-g1 -fno-sanitize=vptr')
