#!/usr/bin/env bash
# Fuzzes what reads bytes from outside with libFuzzer (clang; scripts/install_deps.sh --test --clang).
#
#   scripts/fuzz.sh [TARGET|all] [SECONDS] [-- LIBFUZZER OPTIONS]     60 seconds each when left out
#
# Builds build/fuzz when needed. New inputs that reach new code go to build/fuzz/corpus/TARGET, findings to
# build/fuzz/findings/TARGET-*; the seeds in test/fuzz/seeds stay as they are. An input may take 5 seconds and 256 MB.
# Prints a table: target, inputs, seconds, findings; ends with 1 when there are any.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
target=${1:-all}
seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
[[ ${1:-} == -- ]] && shift

if [[ -z ${TRAINER_FUZZER:-} ]]; then
  TRAINER_FUZZER=$root/build/fuzz/test/fuzz/test_fuzz
  [[ -f build/fuzz/build.ninja ]] || cmake --preset fuzz -DTRAINER_TESTS=ON > /dev/null
  cmake --build --preset fuzz -j "$(nproc)" --target test_fuzz -- --quiet
fi
mapfile -t targets < <(find test/fuzz/seeds -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
if [[ $target != all ]]; then
  [[ -d test/fuzz/seeds/$target ]] || { echo "fuzz.sh: no target '$target'; there are: ${targets[*]}" >&2; exit 2; }
  targets=("$target")
fi

# libFuzzer's seconds are the wall's: on a loaded machine an input may only have waited. What is quick alone is no finding.
forget_waits() {  # TARGET
  local file
  for file in build/fuzz/findings/"$1"-timeout-*; do
    [[ -f $file ]] || continue
    ! "$TRAINER_FUZZER" "$1" "$file" -timeout=2 > /dev/null 2>&1 || rm "$file"
  done
}

mkdir -p build/fuzz/findings
found=0
printf '%-12s %10s %8s %8s %9s\n' target inputs seconds corpus findings
for name in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$name"
  log=build/fuzz/findings/$name.log
  begin=$SECONDS
  # Copies of the seeds without the dictionary, which is no input.
  find "test/fuzz/seeds/$name" -type f ! -name '*.dict' -exec cp -n -t "build/fuzz/corpus/$name" {} +
  "$TRAINER_FUZZER" "$name" --write-long-inputs "build/fuzz/corpus/$name"
  "$TRAINER_FUZZER" "$name" "build/fuzz/corpus/$name" -dict="test/fuzz/seeds/$name/words.dict" \
    -max_total_time="$seconds" -timeout=5 -malloc_limit_mb=256 -rss_limit_mb=2048 -max_len=1048576 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$name-" "$@" > "$log" 2>&1 || true
  forget_waits "$name"
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  [[ -n $inputs ]] || inputs=$(grep -o '^#[0-9]*' "$log" | tail -1 | tr -d '#')
  findings=$(find build/fuzz/findings -name "$name-*" | wc -l)
  [[ $findings == 0 && -n $inputs ]] || found=1
  printf '%-12s %10s %8s %8s %9s\n' "$name" "${inputs:-0}" $((SECONDS - begin)) \
    "$(find "build/fuzz/corpus/$name" -type f | wc -l)" "$findings"
done
exit $found
