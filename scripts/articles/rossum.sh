#!/usr/bin/env bash
# Keras on several GPUs (Rossum): efficiency by the number of replicas, pictures with and without prefetch.
#
#   scripts/articles/rossum.sh [--quick] [--epochs N] [--out DIR]
#
# CATS_DOGS_DIR (or datasets/cats_vs_dogs) has the pictures.
# README.md beside this file says what stands in for data and weights that are not there. TRAINER names the program.
exec python3 "$(dirname "$(readlink -f "$0")")/rossum.py" "$@"
