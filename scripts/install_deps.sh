#!/usr/bin/env bash
# Installs what building trainer needs on Debian 12. Does nothing, and needs no network, when all of it is there.
#
#   scripts/install_deps.sh [--test] [--lint] [--clang] [--package] [--peers]
#
# --test adds what only the tests need, ccache among it; --lint clang-format and clang-tidy; --clang the compiler of the
# presets asan, tsan and fuzz; --package what scripts/package needs; --peers the launchers that tests start ranks with
# (Open MPI and Slurm), and Prometheus.
# Uses sudo only when not root.
set -euo pipefail

packages=(
  g++ cmake ninja-build
  libdnnl-dev                              # convolutions and matrix products on the CPU
  libyaml-cpp-dev libcli11-dev nlohmann-json3-dev
  libre2-dev                               # the pattern of data --group-by
  libutf8proc-dev                          # names of classes that differ by Unicode form
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler  # parameter servers
  libssl-dev libdeflate-dev                # checksums, .gz data
  libcurl4-openssl-dev                     # downloads of weights
  libjpeg62-turbo-dev libturbojpeg0-dev libpng-dev libgif-dev libwebp-dev libtiff-dev libstb-dev
  doctest-dev
  curl ca-certificates
)
for argument in "$@"; do
  case $argument in
    --test) packages+=(python3 python3-venv git ccache zsh chromium groff-base iproute2) ;;
    --lint) packages+=(clang-format-14 clang-tidy-14 libomp-19-dev) ;;
    --clang) packages+=(clang-19 libclang-rt-19-dev libomp-19-dev llvm-19) ;;
    --package) packages+=(dpkg-dev debootstrap patchelf xz-utils) ;;
    --peers) packages+=(openmpi-bin slurmctld slurmd slurm-client munge prometheus python3 python3-venv) ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install_deps.sh: unknown argument '$argument'; --test, --lint, --clang, --package and --peers are known" >&2; exit 2 ;;
  esac
done

fail() {
  echo "install_deps.sh: $1" >&2
  exit 1
}

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  fail "this is not a Debian system; install the equivalents of: ${packages[*]}"
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2> /dev/null || true)
  [[ $status == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "install_deps.sh: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  command -v sudo > /dev/null ||
    fail "not root and no sudo here; as root run: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi

echo "install_deps.sh: installing ${missing[*]}"
# Package lists that are out of date are the usual reason for a failed download: refresh them, but let an
# unreachable mirror be reported by the installation, which names the package.
"${as_root[@]}" apt-get update -qq || echo "install_deps.sh: apt-get update failed; trying with the old lists" >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null ||
  fail "apt could not install: ${missing[*]} (is the network up, and is this Debian 12 or newer?)"
