#!/usr/bin/env bash
# scripts/package/bundle.sh: the archive's size, a training from it in a root folder that holds glibc alone, and gpu_check's three
# parts on the fake GPU in one that has the machine's system folders beside it, and nothing of the repository. Both have no network.
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
"$root/scripts/package/bundle.sh" --gpu --size tiny "$build" "$folder/bundle.tar.xz"
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


# Python and its libraries are the machine's.
system=$folder/system
mkdir -p "$system"/{usr,etc,tmp,proc,dev,bundle,out}
for link in bin lib lib64 sbin; do ln -s "usr/$link" "$system/$link"; done
unshare --net --mount --pid --fork bash -c '
  mount --bind /usr "$0/usr" && mount -o remount,bind,ro "$0/usr" && mount --bind /dev "$0/dev" && mount --bind "$1/bundle" "$0/bundle" &&
  mount -t proc proc "$0/proc" && exec env -i PATH=/usr/sbin:/usr/bin:/bin HOME=/tmp chroot "$0" \
  /bundle/scripts/gpu_check.sh --fake --out /out' "$system" "$bare" > "$folder/gpu_check.log" ||
  { cat "$folder/gpu_check.log"; exit 1; }
for part in correctness speed peers; do
  grep -q "^==== $part, at most 540 s" "$folder/gpu_check.log" || { echo "gpu_check did not run $part"; exit 1; }
done
for holds in "conformance *passed" "images *passed" "profile_cnn_8 *passed.* of the limit" ": 0 are more than 4 times as far"; do
  grep -q "$holds" "$system/out/report.txt" || { echo "the report lacks: $holds"; cat "$system/out/report.txt"; exit 1; }
done
echo "the bundle trains in a bare root, and gpu_check's three parts run with it"
