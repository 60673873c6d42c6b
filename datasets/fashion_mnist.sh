#!/usr/bin/env bash
# Downloads Fashion-MNIST (60,000 + 10,000 pictures of clothing, 28x28) as the four original IDX .gz files.
#
#   datasets/fashion_mnist.sh [FOLDER]     FOLDER is datasets/fashion_mnist when left out; files that are there are kept
#
# FASHION_MNIST_MIRROR: another place that has the files.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/download.sh"
download "${1:-$data_folder/fashion_mnist}" \
  "${FASHION_MNIST_MIRROR:-http://fashion-mnist.s3-website.eu-central-1.amazonaws.com}" FASHION_MNIST_MIRROR << 'FILES'
train-images-idx3-ubyte.gz md5 8d4fb7e6c68d591d4c3dfef9ec88bf0d
train-labels-idx1-ubyte.gz md5 25c81989df183df01b3e8a0aad5dffbe
t10k-images-idx3-ubyte.gz md5 bef4ecab320f06d8554ea6380940ec79
t10k-labels-idx1-ubyte.gz md5 bb300cfdad3c16e7a12a480ee83cd310
FILES
