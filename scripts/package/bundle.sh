#!/usr/bin/env bash
# Makes a relocatable archive of a release build for machines without network: the program and the libraries that a machine with
# glibc 2.36 may lack. CUDA, cuDNN and NCCL are not in it: they come from the system or from NVIDIA's Python wheels.
#
#   scripts/package/bundle.sh [--gpu] [--size full|tiny] [--sanitizer] [BUILD [ARCHIVE]]
#
# BUILD and ARCHIVE are build/release and build/trainer_bundle.tar.xz when left out. Unpack the archive anywhere and run
# apps/trainer/trainer. --gpu adds what scripts/gpu_check.sh in the archive needs: its own scripts, the CUDA plugin and its fake, the
# test programs, configs, drawn digits, a few JPEG files, and in reference/ the plans of the trainings that it measures and the
# distances of the fake GPU's results, which are computed here (--size, see gpu_check/sizes.py). --sanitizer adds NVIDIA's
# compute-sanitizer from PyPI.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

gpu='' sanitizer='' size=full
while [[ ${1:-} == --* ]]; do
  case $1 in
    --gpu) gpu=1 ;;
    --sanitizer) sanitizer=1 ;;
    --size) size=${2:?"bundle.sh: --size: expected full or tiny"}; shift ;;
    *) echo "bundle.sh: $1: expected --gpu, --size or --sanitizer" >&2; exit 2 ;;
  esac
  shift
done
build=${1:-$root/build/release}
archive=${2:-$root/build/trainer_bundle.tar.xz}

files=(apps/trainer/trainer)
if [[ -n $gpu ]]; then
  files+=(apps/trainer/libtrainer_cuda.so test/backend/test_backend test/engine/test_engine
          test/cuda/plans/cuda_device_properties
          test/cuda/plugin/libtrainer_cuda_fake.so test/cuda/fake_nvml/fake_nvml/libnvidia-ml.so.1)
fi
# Files of the repository.
sources=()
if [[ -n $gpu ]]; then
  sources+=(scripts/gpu_check.sh scripts/gpu_check scripts/bench/{cnn,vgg16,mobilenet_v2,resnet50}.yaml
            scripts/bench/peers/{torch_gpu,worker}.py configs/{digits,mnist}.yaml test/cuda/gpu_check/bin
            test/fuzz/seeds/jpeg)
fi

for tool in patchelf xz; do
  command -v "$tool" > /dev/null || { echo "bundle.sh: $tool is missing; run scripts/install_deps.sh --package" >&2; exit 1; }
done
for file in "${files[@]}"; do
  [[ -f $build/$file ]] || { echo "bundle.sh: there is no $build/$file; build it first" >&2; exit 1; }
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/lib"

# Libraries of glibc and of the GPU's driver belong to the machine; those of CUDA come from its toolkit or from NVIDIA's wheels.
of_the_machine='/(ld-linux|libc|libm|libdl|libpthread|librt|libresolv|libutil|libanl)[-.]'
of_cuda='/lib(cuda|cudart|cublas|cublasLt|cudnn|nccl|nvidia-ml)[.]'

for file in "${files[@]}"; do
  install -D "$build/$file" "$folder/$file"
  strip --strip-unneeded "$folder/$file"
  up=$(dirname "$file" | sed 's|[^/]*|..|g')
  patchelf --force-rpath --set-rpath "\$ORIGIN/$up/lib" "$folder/$file"
  ldd "$build/$file" | sed -nE 's/.*=> (\/[^ ]*) .*/\1/p' | grep -Ev "$of_the_machine|$of_cuda" >> "$folder/libraries" || true
done
sort -u "$folder/libraries" | while read -r library; do
  # Libraries of the build are among the files.
  [[ $library == "$build"/* ]] && continue
  cp -L "$library" "$folder/lib/"
  patchelf --force-rpath --set-rpath '$ORIGIN' "$folder/lib/$(basename "$library")"
done
rm "$folder/libraries"
for source in ${sources[@]+"${sources[@]}"}; do
  mkdir -p "$folder/$(dirname "$source")"
  cp -r "$root/$source" "$folder/$source"
done
find "$folder" -name __pycache__ -prune -exec rm -rf {} +
if [[ -n $gpu ]]; then
  python3 -B "$root/scripts/gpu_check/reference.py" "$build" "$folder/reference" --size "$size"
  # The images are drawn when a training first opens them.
  DIGITS_DIR=$folder/datasets/digits "$build/apps/trainer/trainer" train "$root/configs/digits.yaml" --quiet \
    --set train.epochs=null --set train.max_steps=1 --set parallel.device=cpu --set parallel.gpus=0 --set data.limit=64 \
    --run-dir "$folder/run"
  rm -r "$folder/run"
fi
if [[ -n $sanitizer ]]; then
  wheel=$(mktemp -d)
  "$("$root/scripts/python_env.sh" pip)" -m pip download --quiet --no-deps --dest "$wheel" nvidia-cuda-sanitizer-api
  python3 -m zipfile -e "$wheel"/*.whl "$folder/sanitizer"
  rm -rf "$wheel" "$folder/sanitizer/nvidia/cu13/compute-sanitizer/"{docs,x86}
  chmod +x "$folder/sanitizer/nvidia/cu13/bin/compute-sanitizer" "$folder/sanitizer/nvidia/cu13/compute-sanitizer/"*
fi

mkdir -p "$(dirname "$archive")"
chmod 755 "$folder"
tar --owner=0 --group=0 -C "$folder" -cf - . | xz -T0 -4 > "$archive"
echo "bundle.sh: $archive, $(($(stat -c %s "$archive") / 1024)) KiB packed, $(du -sm "$folder" | cut -f1) MiB unpacked"
