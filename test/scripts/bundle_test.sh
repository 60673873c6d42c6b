#!/usr/bin/env bash
# scripts/package/bundle.sh: the archive's size, a training from it in a root folder that holds glibc alone and has no network, and
# gpu_check's steps on the fake GPU.
#
#   bundle_test.sh BUILD
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$1
for needed in apps/trainer/libtrainer_cuda.so test/cuda/plugin/libtrainer_cuda_fake.so; do
  [[ -f $build/$needed ]] || { echo "skipped: there is no $build/$needed"; exit 77; }
done
((EUID == 0)) || { echo "skipped: chroot needs root"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$root/scripts/package/bundle.sh" --gpu "$build" "$folder/bundle.tar.xz"
(($(stat -c %s "$folder/bundle.tar.xz") <= 40 << 20)) || { echo "the archive is larger than 40 MiB"; exit 1; }

bare=$folder/bare
mkdir -p "$bare/bundle" "$bare/lib64" "$bare/lib/x86_64-linux-gnu" "$bare/tmp" "$bare/proc"
tar -C "$bare/bundle" -xJf "$folder/bundle.tar.xz"
[[ $(stat -c %a "$bare/bundle") == 755 ]] || { echo "others cannot enter the unpacked folder"; exit 1; }
cp -L /lib64/ld-linux-x86-64.so.2 "$bare/lib64/"
cp -L /lib/x86_64-linux-gnu/lib{c,m,dl,pthread,rt,resolv,util}.so.* "$bare/lib/x86_64-linux-gnu/"
cp "$root/configs/digits.yaml" "$bare/"
# The loader finds the program's folder by /proc.
unshare --net --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$bare" \
  /bundle/apps/trainer/trainer train /digits.yaml --quiet --set train.max_steps=2 --set data.limit=64 --run-dir /tmp/run
[[ -f $bare/tmp/run/config.yaml ]] || { echo "the training in the bare root left no run folder"; exit 1; }

"$root/scripts/gpu_check.sh" --fake --no-build --build "$bare/bundle" --out "$folder/out" --part correctness speed peers \
  > "$folder/gpu_check.log" || { cat "$folder/gpu_check.log"; exit 1; }
echo "the bundle trains in a bare root, and gpu_check's three parts run with it"
