#!/usr/bin/env bash
# Checks what scripts/test.sh does not: the style, clang-tidy, the CUDA backend, the unit tests under ASan and UBSan, the
# threaded parts under TSan, the packages, whether models train, and the programs that trainer works with: Keras, MLflow, Open MPI and Slurm.
# `.ci/run` calls both.
#
#   scripts/check.sh [style] [lint] [cuda] [asan] [tsan] [package] [training] [peers]     all of them where none is named
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=scripts/build_functions.sh
source scripts/build_functions.sh

check_style() {
  say "style"
  scripts/check_layers.py
  scripts/check_docs.py
  scripts/check_words.py
  scripts/check_keys.py
  scripts/format.sh --check
}

check_lint() {
  say "lint"
  # clang-tidy takes seconds per file: the latest changes are checked, and the count of files left out is printed. A
  # number of files, not a time, decides which, so that every machine checks the same.
  scripts/lint.sh --changed --newest 40
}

# The summary alone when all is well, so that a finding is easy to see.
run_tests() {  # PRESET CTEST_ARGS...
  local preset=$1 log=build/$1/ctest.log
  shift
  say "test $preset"
  ctest --preset "$preset" -j "$jobs" --no-tests=error "$@" > "$log" 2>&1 || { cat "$log"; return 1; }
  grep -E 'tests passed|Total Test time' "$log"
}

# The kernels as nvcc compiles them, and the whole backend on the CPU with fakes of CUDA's libraries.
check_cuda() {
  configure release
  build release
  run_tests release --tests-regex '^cuda' --label-exclude '^slow'
  grep -F '***Skipped' build/release/ctest.log || true
}

# llvm-symbolizer in this folder gives reports and suppressions the names of functions.
export PATH=$PATH:/usr/lib/llvm-19/bin

# End-to-end runs repeat under sanitizers what the unit tests have touched, at twenty times the cost. Of the CUDA
# backend: its kernels, and small cases of its host code on the fakes of CUDA's libraries (test/cuda/plugin). Left out
# are cases that repeat others with the reference backend, or with larger models.
check_asan() {
  local unit_tests left_out
  left_out="^(e2e:|test_e2e|.*on the reference backend$|engine: ?FrozenPrefix: the features of a sample|"
  left_out+="backend: ?recompute: mobilenet_v2)"
  configure asan
  # test_compare_updates serves a test with the label training.
  mapfile -t unit_tests < <(targets asan 'test_[a-z0-9_]*|trainer_cuda_fake' | grep -vE 'e2e|compare_updates')
  build asan "${unit_tests[@]}"
  UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS="suppressions=$PWD/test/lsan.supp" \
    run_tests asan --label-exclude 'e2e|scripts|slow|peers|training' --exclude-regex "$left_out"
}

# TSan does not support OpenMP's own threads, so each layer runs on one of them here. Of the backend, what runs on lanes.
# Parameter servers use gRPC, which is not built with TSan. Tests that compute for minutes are left out: their threads
# are those of other tests. The fake of the CUDA runtime runs each stream, and the kernels' CPU each thread of a
# block, as a thread: their mistakes on purpose are races.
check_tsan() {
  local cuda left_out
  left_out="^(train: ?servers|engine: ?(FrozenPrefix: the features of a sample|ClassActivation: a backbone's last|"
  left_out+="on the reference backend)|backend: ?Executable: a batch of more samples|data: ?decode_plain: real)"
  configure tsan
  mapfile -t cuda < <(targets tsan 'test_cuda_(fake_runtime|kernels|collective)|trainer_cuda_fake')
  build tsan test_base test_cluster test_data test_backend test_engine test_train test_library "${cuda[@]}"
  OMP_NUM_THREADS=1 TSAN_OPTIONS="suppressions=$PWD/test/tsan.supp" \
    run_tests tsan --label-exclude 'e2e|slow|peers' --exclude-regex "$left_out" --tests-regex \
    '^(base|cluster|data|engine|train|library|cuda_fake_runtime|cuda_kernels|cuda_collective|cuda fake):|'\
'^backend:.*(lane|[Bb]atch|runs|calls|update|rank)'
}

# The installed tree and the Debian package of the release build.
check_package() {
  configure release
  build release
  run_tests release --label-regex '^package$'
}

# The machine has what these tests need, so that a skipped test is a failure.
check_peers() {
  configure release
  build release trainer cluster_rank
  run_tests release --label-regex '^peers$'
  if grep -F '***Skipped' build/release/ctest.log; then
    echo "check.sh: a test skipped for lack of a program that scripts/install_deps.sh --peers or" \
      "scripts/python_env.sh should have installed" >&2
    return 1
  fi
}

# The updates of random models against a reference, and the accuracy of every config after some steps.
check_training() {
  configure release
  build release trainer test_compare_updates
  run_tests release --label-regex '^training$'
}

checks=("$@")
((${#checks[@]} > 0)) || checks=(style lint cuda asan tsan package training peers)
for check in "${checks[@]}"; do
  case $check in
    style | lint | cuda | asan | tsan | package | training | peers) ;;
    *) echo "check.sh: unknown check '$check'; style, lint, cuda, asan, tsan, package, training and peers are known" >&2; exit 2 ;;
  esac
done
say "install"
scripts/install_deps.sh --test --lint --clang --package --peers
for check in "${checks[@]}"; do "check_$check"; done
say "all checks passed: ${checks[*]}"
