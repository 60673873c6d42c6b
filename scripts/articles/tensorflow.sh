#!/usr/bin/env bash
# Multi-worker training with Estimators (TensorFlow): MNIST with 2 workers that TF_CONFIG names.
#
#   scripts/articles/tensorflow.sh [--quick] [--epochs N] [--out DIR]
#
# MNIST_DIR (or datasets/mnist) has the data.
# README.md beside this file says what stands in for data and weights that are not there. TRAINER names the program.
exec python3 "$(dirname "$(readlink -f "$0")")/tensorflow.py" "$@"
