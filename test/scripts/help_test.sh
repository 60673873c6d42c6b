#!/usr/bin/env bash
# --help of the benchmarks answers at once: it installs nothing, and needs neither the program nor Python packages.
set -euo pipefail

bench=$(cd "$(dirname "$0")/../../scripts/bench" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
for script in "$bench"/*; do
  [[ -f $script && $(basename "$script") != *.* ]] || continue
  for option in --help -h; do
    # Arguments before it change nothing.
    TRAINER=/nowhere TRAINER_VENV=$work/venv timeout 60 "$script" --trainer x "$option" > "$work/out" 2>&1 ||
      { echo "$script $option failed:"; cat "$work/out"; exit 1; }
    grep -q '^usage: ' "$work/out" || { echo "$script $option says:"; cat "$work/out"; exit 1; }
    [[ ! -e $work/venv ]] || { echo "$script $option made a Python environment"; exit 1; }
  done
  count=$((count + 1))
done
((count >= 12)) || { echo "only $count benchmarks were found"; exit 1; }
echo "help of $count benchmarks"
