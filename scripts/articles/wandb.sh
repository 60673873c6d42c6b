#!/usr/bin/env bash
# Cats and dogs with MobileNetV2: the five runs of the W&B report, and the model in two runs, frozen, then fine-tuned.
#
#   scripts/articles/wandb.sh [--quick] [--epochs N] [--out DIR]
#
# CATS_DOGS_DIR (or datasets/cats_vs_dogs) has the data and WEIGHTS_DIR the ImageNet weights; README.md beside this file
# says what stands in for them. TRAINER names the program.
exec python3 "$(dirname "$(readlink -f "$0")")/wandb.py" "$@"
