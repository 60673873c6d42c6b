#!/usr/bin/env bash
# Formats the C++ sources with clang-format 14, or with --check lists those that differ.
set -euo pipefail

cd "$(dirname "$0")/.."
formatter=$(command -v clang-format-14 || command -v clang-format) ||
  { echo "format.sh: no clang-format; scripts/install_deps.sh --lint installs it" >&2; exit 1; }
mapfile -t files < <(git ls-files '*.h' '*.inl' '*.cpp' '*.cu' '*.cuh')
((${#files[@]} > 0)) || exit 0
case ${1:-} in
  --check) "$formatter" --dry-run --Werror "${files[@]}" ;;
  "") "$formatter" -i "${files[@]}" ;;
  *) echo "format.sh: unknown argument '$1'; only --check is known" >&2; exit 2 ;;
esac
