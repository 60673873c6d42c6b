#!/usr/bin/env bash
# Makes a relocatable archive of a release build for machines without network: the program, its CUDA plugin, the test programs that
# scripts/gpu_check.sh runs, and the libraries that a machine with glibc 2.36 may lack. CUDA, cuDNN and NCCL are not in it.
#
#   scripts/package/bundle.sh [--gpu] [BUILD [ARCHIVE]]      build/release and build/trainer_bundle.tar.xz when left out
#
# --gpu adds the plugin and the test programs. Unpack the archive anywhere and run apps/trainer/trainer, or, from a checkout,
# scripts/gpu_check.sh --no-build --build FOLDER.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

gpu=
if [[ ${1:-} == --gpu ]]; then
  gpu=1
  shift
fi
build=${1:-$root/build/release}
archive=${2:-$root/build/trainer_bundle.tar.xz}

files=(apps/trainer/trainer)
if [[ -n $gpu ]]; then
  files+=(apps/trainer/libtrainer_cuda.so test/backend/test_backend test/engine/test_engine
          test/cuda/plans/cuda_device_properties)
  # The fake GPU shows that gpu_check's steps work where the archive is made.
  for optional in test/cuda/plugin/libtrainer_cuda_fake.so test/cuda/fake_nvml/fake_nvml/libnvidia-ml.so.1; do
    [[ -e $build/$optional ]] && files+=("$optional")
  done
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

mkdir -p "$(dirname "$archive")"
chmod 755 "$folder"
tar --owner=0 --group=0 -C "$folder" -cf - . | xz -T0 -4 > "$archive"
echo "bundle.sh: $archive, $(($(stat -c %s "$archive") / 1024)) KiB packed, $(du -sm "$folder" | cut -f1) MiB unpacked"
