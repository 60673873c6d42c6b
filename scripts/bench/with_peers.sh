#!/usr/bin/env bash
# Runs a benchmark with the Python packages that it needs; --help needs none of them.
#
#   with_peers.sh BENCHMARK SET|PACKAGE... -- ARGS...     BENCHMARK.py of this folder; sets as of python_env.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
script=$here/$1.py
shift
packages=()
while [[ $1 != -- ]]; do
  packages+=("$1")
  shift
done
shift
for argument in "$@"; do
  [[ $argument == -h || $argument == --help ]] && exec python3 "$script" --help
done
exec "$here/../python_env.sh" "${packages[@]}" -- "$script" "$@"
