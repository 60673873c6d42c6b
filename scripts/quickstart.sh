#!/usr/bin/env bash
# Installs, builds, trains a CNN on the drawn digits and evaluates it. Arguments go to `trainer train`.
#
#   scripts/quickstart.sh [--epochs 1 ...]
set -euo pipefail

cd "$(dirname "$0")/.."
scripts/install_deps.sh
cmake --preset release -DTRAINER_TESTS=OFF > /dev/null
cmake --build --preset release -j "$(nproc)" -- --quiet

trainer=build/release/apps/trainer/trainer
run=runs/quickstart-$(date +%Y%m%d-%H%M%S)
"$trainer" train configs/digits.yaml --run-dir "$run" "$@"
"$trainer" evaluate "$run"
echo
echo "The run is in $run. Next: $trainer plan configs/digits.yaml; tensorboard --logdir runs"
