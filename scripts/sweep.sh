#!/usr/bin/env bash
# Trains a config for every combination of lists in the environment, and prints one table.
#
#   NUM_GPUS="1 2" BATCH_SIZE="32 64" scripts/sweep.sh CONFIG [option of `trainer sweep` ...]
#
# NUM_GPUS, BATCH_SIZE, LEARNING_RATE and SEEDS are lists with blanks between; --over KEY=V1,V2 adds others. DEVICE=cpu
# counts replicas instead of GPUs. A point that has finished is skipped, one that was stopped is resumed: start the same
# command again after an interruption.
#
# LAUNCHER=local (here, one after the other) | slurm (a job array, waited for) | kubernetes (manifests on standard output).
# TRAINER names the program: else the build of this checkout, else the one on the PATH.
set -euo pipefail

if (($# == 0)) || [[ $1 == -h || $1 == --help ]]; then
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit $(($# == 0 ? 2 : 0))
fi

root=$(cd "$(dirname "$0")/.." && pwd)
if [[ -z ${TRAINER:-} ]]; then
  TRAINER=$root/build/release/apps/trainer/trainer
  [[ -x $TRAINER ]] || TRAINER=trainer
fi
command -v "$TRAINER" > /dev/null || {
  echo "sweep.sh: no program '$TRAINER'; build it, or name it with TRAINER=..." >&2
  exit 2
}

case ${LAUNCHER:-local} in
  local) exec "$TRAINER" sweep "$@" ;;
  kubernetes) exec "$TRAINER" sweep "$@" --launcher kubernetes ;;
  slurm)
    # --wait gives the code of the worst task; the table lists which points failed.
    "$TRAINER" sweep "$@" --launcher slurm | sbatch --wait || true
    exec "$TRAINER" sweep "$@" --collect
    ;;
  *)
    echo "sweep.sh: LAUNCHER is '$LAUNCHER'; expected local, slurm or kubernetes" >&2
    exit 2
    ;;
esac
