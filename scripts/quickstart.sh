#!/usr/bin/env bash
# Installs, builds, trains a CNN on the drawn digits and evaluates it. Arguments go to `trainer train`. The CUDA backend is
# built where the machine has an NVIDIA driver and what the backend needs.
#
#   scripts/quickstart.sh [--epochs 1 ...]
set -euo pipefail

cd "$(dirname "$0")/.."
say() { echo "quickstart.sh: $1"; }

scripts/install_deps.sh
say "building with $(nproc) compilers at a time; the first build takes several minutes, 150 MB of disk, and up to
750 MB of memory for each compiler, or 1.8 GB where there is enough"
cmake --preset release -DTRAINER_TESTS=OFF > /dev/null
targets=(trainer)
if [[ -e /proc/driver/nvidia/version ]] && ninja -C build/release -t query trainer_cuda > /dev/null 2>&1; then
  targets+=(trainer_cuda)
fi
cmake --build --preset release -j "$(nproc)" --target "${targets[@]}"

trainer=build/release/apps/trainer/trainer
say "training a small network on drawn digits"
run=runs/quickstart-$(date +%Y%m%d-%H%M%S)
"$trainer" train configs/digits.yaml --run-dir "$run" "$@"
say "evaluating it on the test digits"
"$trainer" evaluate "$run"
echo
echo "The run is in $run. Next: $trainer plan configs/digits.yaml; tensorboard --logdir runs"
