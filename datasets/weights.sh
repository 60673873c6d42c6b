#!/usr/bin/env bash
# Downloads Keras's ImageNet weights of the backbones (without their classifiers), where `weights: imagenet` finds them.
#
#   datasets/weights.sh [NETWORK...]     of vgg16 (56 MB), mobilenet_v2 (9 MB), resnet50 (90 MB); all when left out
#
# WEIGHTS_DIR: the folder; `weights` in the checkout when it is not set. Files that are there are kept.
# WEIGHTS_MIRROR: another place that has the files, each in the folder of its network.
# Keras publishes no checksum of MobileNetV2's files: only that it is an HDF5 file is checked.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/download.sh"
mirror=${WEIGHTS_MIRROR:-https://storage.googleapis.com/tensorflow/keras-applications}
folder=${WEIGHTS_DIR:-$(dirname "$here")/weights}
(($#)) || set -- vgg16 mobilenet_v2 resnet50
for network; do
  case $network in
    vgg16) file="vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5 md5 6d6bbae143d832006294945121d1f1fc" ;;
    resnet50)
      network=resnet
      file="resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5 md5 4d473c1dd8becc155b73f8504c6f6626"
      ;;
    mobilenet_v2)
      file="mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5 begins 894844460d0a1a0a"
      ;;
    *)
      echo "weights.sh: no network '$network'; expected vgg16, mobilenet_v2 or resnet50" >&2
      exit 2
      ;;
  esac
  download "$folder" "${mirror%/}/$network" WEIGHTS_MIRROR <<< "$file"
done
