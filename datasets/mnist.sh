#!/usr/bin/env bash
# Downloads MNIST (60,000 + 10,000 handwritten digits, 28x28) as the four original IDX .gz files.
#
#   datasets/mnist.sh [FOLDER]     FOLDER is datasets/mnist when left out; files that are there are kept
#
# MNIST_MIRROR: another place that has the files.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/download.sh"
download "${1:-$data_folder/mnist}" "${MNIST_MIRROR:-https://storage.googleapis.com/cvdf-datasets/mnist}" MNIST_MIRROR << 'FILES'
train-images-idx3-ubyte.gz content-sha256 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte.gz content-sha256 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte.gz content-sha256 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte.gz content-sha256 ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2
FILES
