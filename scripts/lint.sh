#!/usr/bin/env bash
# Runs clang-tidy 14 with .clang-tidy over the sources of lib/ and apps/, or over the files given.
#
#   scripts/lint.sh [--changed] [--newest N] [FILES...]
#
# --changed takes the files that differ from the merge base with origin/main, or, on origin/main itself and in a clone
# without it, those of the last 50 commits. The latest changes come first. --newest takes the first N of the files
# and prints how many were left out.
set -euo pipefail

cd "$(dirname "$0")/.."
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) ||
  { echo "lint.sh: no clang-tidy; scripts/install_deps.sh --lint installs it" >&2; exit 1; }

changed="" newest="" files=()
while (($# > 0)); do
  case $1 in
    --changed) changed=1 ;;
    --newest) newest=${2:?lint.sh: --newest needs a number}; shift ;;
    -*) echo "lint.sh: unknown option '$1'; --changed and --newest are known" >&2; exit 2 ;;
    *) files+=("$1") ;;
  esac
  shift
done

base_commit() {
  local base
  if base=$(git merge-base HEAD origin/main 2> /dev/null) && [[ $base != "$(git rev-parse HEAD)" ]]; then
    echo "$base"
  else
    git rev-list --max-count=51 --first-parent HEAD | tail -n 1
  fi
}

# Changed files, those not committed first, then from the newest commit to the oldest.
changed_files() {
  local base
  base=$(base_commit)
  { git diff --name-only HEAD; git ls-files --others --exclude-standard; git log --format= --name-only "$base..HEAD"; } |
    grep -E '^(lib|apps)/.*\.cpp$' | awk '!seen[$0]++' | while read -r file; do [[ -f $file ]] && echo "$file"; done || true
}

if [[ -n $changed ]]; then
  mapfile -t files < <(changed_files)
elif ((${#files[@]} == 0)); then
  mapfile -t files < <(git ls-files 'lib/*.cpp' 'apps/*.cpp')
fi
# These are written in GCC's extensions: clang 14 lacks __builtin_shuffle and the names of some CPU features.
mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -vxE '(lib/backend/cpu/simd/(amx|kernels|v[34])\.cpp)?' || true)
if ((${#files[@]} == 0)); then
  echo "lint.sh: no file to check"
  exit 0
fi
if [[ -n $newest ]] && ((${#files[@]} > newest)); then
  echo "lint.sh: the newest $newest of ${#files[@]} files; $((${#files[@]} - newest)) left out"
  files=("${files[@]:0:newest}")
fi

# The preset dev compiles each source on its own, so that each has a command. clang-tidy also needs the headers that
# protoc writes.
database=build/dev
commands=$database/compile_commands.json
if [[ ! -f $commands || -n $(find . -path ./build -prune -o -name CMakeLists.txt -newer "$commands" -print -quit) ]]; then
  cmake --preset dev > /dev/null
fi
generated=lib/server/parameter_server.grpc.pb.h
if [[ -f $database/CMakeCache.txt && ! -f $database/$generated ]]; then
  cmake --build --preset dev --target "$generated" -- --quiet > /dev/null
fi

# clang 14 has no omp.h, and does not read GCC's.
omp_headers=$(dirname "$(dpkg -L libomp-19-dev | grep '/omp\.h$')")
export tidy database omp_headers
check_file() {
  # The commands are GCC's, whose warnings and parameters clang need not know.
  local findings
  findings=$("$tidy" -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-unused-command-line-argument --extra-arg="-idirafter$omp_headers" "$1" 2>&1) && return 0
  grep -vE '^[0-9]+ warnings? ' <<< "$findings" >&2
  return 1
}
export -f check_file
code=0
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'check_file "$1"' check_file || code=1

echo "lint.sh: ${#files[@]} files checked"
exit $code
