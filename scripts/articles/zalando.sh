#!/usr/bin/env bash
# Estimators on several GPUs (Zalando): Fashion-MNIST and OCT scans at 1 and 2, all else constant.
#
#   scripts/articles/zalando.sh [--quick] [--epochs N] [--out DIR]
#
# FASHION_MNIST_DIR and OCT_DIR (or the folders in datasets/) have the data, WEIGHTS_DIR VGG16's ImageNet weights.
# README.md beside this file says what stands in for data and weights that are not there. TRAINER names the program.
exec python3 "$(dirname "$(readlink -f "$0")")/zalando.py" "$@"
