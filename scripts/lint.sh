#!/usr/bin/env bash
# Runs clang-tidy 14 with .clang-tidy over the sources, or over the files given.
set -euo pipefail

cd "$(dirname "$0")/.."
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) ||
  { echo "lint.sh: no clang-tidy; scripts/install_deps.sh --lint installs it" >&2; exit 1; }
[[ -f build/dev/compile_commands.json ]] || cmake --preset dev > /dev/null
files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -t files < <(git ls-files 'lib/*.cpp' 'apps/*.cpp')
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tidy" -p build/dev --quiet
