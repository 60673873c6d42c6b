#!/usr/bin/env bash
# Installs what the tests need, builds the release preset without the CUDA backend, and runs the suite. The last output is
# ctest's summary. scripts/check.sh checks the rest: style, clang-tidy, the CUDA backend, sanitizers, packages, whether
# models train, and other programs that trainer works with.
#
#   scripts/test.sh [CTEST OPTION...]     e.g. -R '^data:'
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=scripts/build_functions.sh
source scripts/build_functions.sh

say "install"
scripts/install_deps.sh --test
# check.sh tests the CUDA backend, so that this script takes as long with the CUDA toolkit as without it.
configure release -DTRAINER_CUDA=OFF
build release
say "test release"
# Many tests wait for other processes, so that two tests per core keep the cores busy.
ctest --preset release -j $((2 * jobs)) --no-tests=error --label-exclude 'slow|^package$|^training$|^peers$' "$@"
log=build/release/Testing/Temporary/LastTest.log
[[ -f $log ]] || { echo "test.sh: ctest left no $log" >&2; exit 1; }
if grep -F '[missing]' "$log"; then
  echo "test.sh: tests skipped for lack of what scripts/install_deps.sh --test should have installed" >&2
  exit 1
fi
