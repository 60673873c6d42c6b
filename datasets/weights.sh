#!/usr/bin/env bash
# Downloads Keras's ImageNet weights of the backbones (without their classifiers), where `weights: imagenet` finds them.
#
#   datasets/weights.sh [NETWORK...]     vgg16 (56 MB), mobilenet_v2 (9 MB) and resnet50 (90 MB) when left out; also
#       resnet101, densenet121, efficientnet_b0 to _b3, mobilenet_v3_small, mobilenet_v3_large, convnext_tiny
#
# WEIGHTS_DIR: the folder; when it is not set, `weights` in the checkout, or in the current folder for an installed copy. Files that are there are kept.
# WEIGHTS_MIRROR: another place that has the files, each in the folder of its network.
# Keras publishes no checksum of MobileNetV2's files: only that it is an HDF5 file is checked.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
source "$here/download.sh"
mirror=${WEIGHTS_MIRROR:-https://storage.googleapis.com/tensorflow/keras-applications}
folder=${WEIGHTS_DIR:-$(dirname "$data_folder")/weights}
(($#)) || set -- vgg16 mobilenet_v2 resnet50
for network; do
  place=${mirror%/}/$network
  case $network in
    vgg16) file="vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5 md5 6d6bbae143d832006294945121d1f1fc" ;;
    resnet50)
      place=${mirror%/}/resnet
      file="resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5 md5 4d473c1dd8becc155b73f8504c6f6626"
      ;;
    mobilenet_v2)
      file="mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5 begins 894844460d0a1a0a"
      ;;
    resnet101)
      place=${mirror%/}/resnet
      file="resnet101_weights_tf_dim_ordering_tf_kernels_notop.h5 md5 88cf7a10940856eca736dc7b7e228a21"
      ;;
    densenet121)
      place=${mirror%/}/densenet
      file="densenet121_weights_tf_dim_ordering_tf_kernels_notop.h5 md5 30ee3e1110167f948a6b9946edeeb738"
      ;;
    efficientnet_b?)
      # Keras keeps them in another folder of the same server.
      place=${WEIGHTS_MIRROR:-https://storage.googleapis.com/keras-applications}
      place=${place%/}
      case $network in
        *b0) file="efficientnetb0_notop.h5 md5 50bc09e76180e00e4465e1a485ddc09d" ;;
        *b1) file="efficientnetb1_notop.h5 md5 74c4e6b3e1f6a1eea24c589628592432" ;;
        *b2) file="efficientnetb2_notop.h5 md5 111f8e2ac8aa800a7a99e3239f7bfb39" ;;
        *b3) file="efficientnetb3_notop.h5 md5 af6d107764bb5b1abb91932881670226" ;;
        *) echo "weights.sh: no network '$network'; expected efficientnet_b0 to efficientnet_b3" >&2; exit 2 ;;
      esac
      ;;
    mobilenet_v3_small)
      place=${mirror%/}/mobilenet_v3
      file="weights_mobilenet_v3_small_224_1.0_float_no_top_v2.h5 md5 d3e8ec802a04aa4fc771ee12a9a9b836"
      ;;
    mobilenet_v3_large)
      place=${mirror%/}/mobilenet_v3
      file="weights_mobilenet_v3_large_224_1.0_float_no_top_v2.h5 md5 07fb09a5933dd0c8eaafa16978110389"
      ;;
    convnext_tiny)
      place=${mirror%/}/convnext
      file="convnext_tiny_notop.h5 sha256 d547c096cabd03329d7be5562c5e14798aa39ed24b474157cef5e85ab9e49ef1"
      ;;
    *)
      echo "weights.sh: no network '$network'; expected one of the backbones of \`trainer models\`" >&2
      exit 2
      ;;
  esac
  download "$folder" "$place" WEIGHTS_MIRROR <<< "$file"
done
