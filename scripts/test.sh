#!/usr/bin/env bash
# Installs what the tests need, checks the style, builds, and runs all tests: under ASan and UBSan, the threaded parts
# under TSan, then without sanitizers. The last output is ctest's summary of the full suite.
#
#   scripts/test.sh [--quick]     --quick leaves the sanitizers out
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
quick=
[[ ${1:-} == --quick ]] && quick=1
jobs=$(nproc)

say() { echo "==== $1 (after $SECONDS s)"; }

# Paths relative to the root, so that clones in other folders find each other's results.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

configure() {  # PRESET
  local preset=$1
  mkdir -p "build/$preset"
  # Under sanitizers GCC 12 warns of overflows in the standard library that are none.
  local werror=OFF
  [[ $preset == release ]] && werror=ON
  cmake --preset "$preset" -DTRAINER_TESTS=ON -DTRAINER_WERROR=$werror "${launcher[@]}" > "build/$preset/configure.log" 2>&1 ||
    { cat "build/$preset/configure.log"; return 1; }
}

targets() {  # PRESET REGEX
  ninja -C "build/$1" -t targets all | sed -nE "s/^($2): phony\$/\1/p"
}

build() {  # PRESET [TARGETS...]
  local preset=$1
  shift
  say "build $preset"
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} -- --quiet
}

# The summary alone when all is well: the suite runs several times. A test that fails beside others gets a second try
# alone, as a loaded machine can exceed a time limit; what a sanitizer reports fails at once.
run_tests() {  # PRESET CTEST_ARGS...
  local preset=$1 log=build/$1/ctest.log
  shift
  say "test $preset"
  if ! ctest --preset "$preset" -j "$jobs" --no-tests=error "$@" > "$log" 2>&1; then
    cat "$log"
    ! grep -qE 'WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|: runtime error: ' "$log" || return 1
    say "second try of what failed"
    ctest --preset "$preset" --rerun-failed
  fi
  grep -E 'tests passed|Total Test time' "$log"
}

say "install"
scripts/install_deps.sh --test --lint --package
scripts/check_layers.py
scripts/format.sh --check
if [[ -z ${TRAINER_SHARED_DATA:-} && -d ../shared/data ]]; then
  TRAINER_SHARED_DATA=$(cd ../shared/data && pwd)
  export TRAINER_SHARED_DATA
fi

configure release
build release

# clang-tidy takes seconds per file: the latest changes are checked, and the count of files left out is printed. A
# number of files, not a time, decides which, so that every machine checks the same.
say "lint"
scripts/lint.sh --changed --newest 40

if [[ -z $quick ]]; then
  # End-to-end runs repeat under sanitizers what the unit tests have touched, at twenty times the cost. Of the CUDA
  # backend: its kernels, and small cases of its host code on the fakes of CUDA's libraries (test/cuda/plugin).
  configure asan
  mapfile -t unit_tests < <(targets asan 'test_[a-z0-9_]*|trainer_cuda_fake' | grep -v e2e)
  build asan "${unit_tests[@]}"
  UBSAN_OPTIONS=print_stacktrace=1 run_tests asan --label-exclude 'e2e|scripts|slow' --exclude-regex '^(e2e:|test_e2e)'

  # OpenMP's own threads are not known to TSan, so layers run on one of them here. Of the backend, what runs on
  # lanes. Parameter servers use gRPC, which is not built with TSan. The fake of the CUDA runtime treats each stream, and
  # the kernels' CPU each thread of a block, as a thread: their mistakes on purpose are races.
  configure tsan
  mapfile -t cuda < <(targets tsan 'test_cuda_(fake_runtime|kernels|collective)|trainer_cuda_fake')
  build tsan test_base test_cluster test_data test_backend test_engine test_train test_measure "${cuda[@]}"
  OMP_NUM_THREADS=1 TSAN_OPTIONS="suppressions=$root/test/tsan.supp" \
    run_tests tsan --label-exclude 'e2e|slow' --exclude-regex '^train: ?servers' --tests-regex \
    '^(base|cluster|data|engine|train|measure|cuda_fake_runtime|cuda_kernels|cuda_collective|cuda fake):|'\
'^backend:.*(lane|batch|runs|calls|update|rank)'
fi

say "test release"
ctest --preset release -j "$jobs" --no-tests=error --label-exclude slow --repeat until-pass:2
