#!/usr/bin/env bash
# Distributed Estimators (Clusterone): MNIST on 1, 2 and 4 workers, with parameter servers and in step.
#
#   scripts/articles/clusterone.sh [--quick] [--epochs N] [--out DIR]
#
# MNIST_DIR (or datasets/mnist) has the data.
# README.md beside this file says what stands in for data and weights that are not there. TRAINER names the program.
exec python3 "$(dirname "$(readlink -f "$0")")/clusterone.py" "$@"
