#!/usr/bin/env bash
# Checks the CUDA backend on a machine with a GPU, from a clone on: installs, builds, compares, trains, measures, and leaves
# one report (report.txt and report.json). See gpu_check/__main__.py for the steps and options.
#
#   scripts/gpu_check.sh            on a machine with an NVIDIA GPU, its driver and the CUDA Toolkit
#   scripts/gpu_check.sh --fake     the same steps on the tests' fake GPUs: what CI runs. It shows that the steps work, and
#                                   nothing of a GPU.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v python3 > /dev/null; then
  "$root/scripts/install_deps.sh" --test
fi
exec python3 "$root/scripts/gpu_check" "$@"
