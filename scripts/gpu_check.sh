#!/usr/bin/env bash
# Checks the CUDA backend on a machine with a GPU, from a clone on: builds, compares, trains, measures, and leaves one report
# (report.txt and report.json). Installs nothing. See gpu_check/__main__.py for the steps and options.
#
#   scripts/gpu_check.sh            on a machine with an NVIDIA GPU, its driver and the CUDA Toolkit
#   scripts/gpu_check.sh --fake     the same steps with the tests' fake libraries as the GPU and few cases: what CI runs. It
#                                   shows that the steps work, and nothing of a GPU.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v python3 > /dev/null; then
  echo "gpu_check.sh: there is no python3; run scripts/install_deps.sh --test" >&2
  exit 1
fi
exec python3 "$root/scripts/gpu_check" "$@"
