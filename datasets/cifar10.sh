#!/usr/bin/env bash
# Downloads CIFAR-10 (50,000 + 10,000 colour pictures of 10 classes, 32x32, 162 MB) and repacks it as cifar10.npz, with
# the arrays that Keras names x_train, y_train, x_test and y_test.
#
#   datasets/cifar10.sh [FOLDER]     FOLDER is datasets/cifar10 when left out; a file that is there is kept
#
# CIFAR10_MIRROR: another place that has cifar-10-binary.tar.gz.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/download.sh"
folder=${1:-$data_folder/cifar10}
if [[ -s $folder/cifar10.npz ]]; then
  echo "$folder/cifar10.npz: already there"
  exit
fi
download "$folder" "${CIFAR10_MIRROR:-https://www.cs.toronto.edu/~kriz}" CIFAR10_MIRROR << 'FILES'
cifar-10-binary.tar.gz md5 c32a1d4ab5d03f1284b67883e8d87530
FILES
"$here/repack_cifar10.py" "$folder/cifar-10-binary.tar.gz" "$folder/cifar10.npz"
rm "$folder/cifar-10-binary.tar.gz"
