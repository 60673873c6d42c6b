#!/usr/bin/env bash
# The steps of Dockerfile.cuda in a bare root of Debian 12, with the wheels of a built tree: the program finds the CUDA
# backend and NVIDIA's libraries, plans for a GPU, and trains without one. Needs root and the network (2 GB of wheels).
set -euo pipefail

# shellcheck source=test/scripts/package_support.sh
source "$(dirname "$0")/package_support.sh"
[[ -f $1/apps/trainer/libtrainer_cuda.so ]] || { echo "cuda_image_test: this build has no CUDA plugin"; exit 77; }
make_package wheel.sh "$1"
package_scripts=$(cd "$(dirname "$0")/../../scripts/package" && pwd)
# shellcheck source=scripts/package/bare_root.sh
source "$package_scripts/bare_root.sh"
make_bare_root bookworm "$work/debootstrap.log"
trap 'umount "$bare/proc" 2> /dev/null || true; rm -rf "$bare" "$work"' EXIT
cp /etc/resolv.conf "$bare/etc/resolv.conf"
# This machine's certificates, which may be those of a proxy.
cp /etc/ssl/certs/ca-certificates.crt "$bare/tmp/"
variables=(PIP_CERT=/tmp/ca-certificates.crt PIP_DEFAULT_TIMEOUT=180)
in_image() { inside env "${variables[@]}" "$@"; }
while read -r instruction arguments; do
  echo "cuda_image_test: $instruction $arguments"
  case $instruction in
    FROM) [[ $arguments == debian:12-slim ]] || fail "the bare root is not $arguments" ;;
    RUN) in_image sh -c "$arguments" > "$work/log" 2>&1 || { tail -20 "$work/log" >&2; fail "RUN $arguments fails"; } ;;
    COPY)
      read -r -a words <<< "$arguments"
      for pattern in "${words[@]:0:${#words[@]}-1}"; do
        # shellcheck disable=SC2206
        files=("$work"/$pattern)
        cp "${files[@]}" "$bare${words[-1]}"
      done
      ;;
    ENV) read -r -a words <<< "$arguments"; variables+=("${words[@]}") ;;
    WORKDIR) [[ $arguments == / ]] || fail "WORKDIR $arguments" ;;
    ENTRYPOINT) entry=$(tr -d '[]"' <<< "$arguments") ;;
    *) fail "this test does not run $instruction" ;;
  esac
done < <(grep -vE '^(#|$)' "$package_scripts/Dockerfile.cuda")

[[ " ${variables[*]} " == *" NVIDIA_VISIBLE_DEVICES=all "* ]] || fail "no GPU is visible by default"
[[ " ${variables[*]} " =~ \ NVIDIA_DRIVER_CAPABILITIES=([a-z,]*)\  ]] || fail "no capabilities of the driver"
for capability in compute utility; do
  [[ ,${BASH_REMATCH[1]}, == *,$capability,* ]] || fail "the driver has no $capability"
done
in_image "$entry" --version
config=/opt/trainer/share/trainer/configs/digits.yaml
loaded=$(in_image LD_DEBUG=libs "$entry" plan "$config" --device h100 --set data.path=/tmp/digits 2>&1) ||
  { tail -20 <<< "$loaded" >&2; fail "no plan for a GPU"; }
for library in cu13/lib/libcudart.so.13 cu13/lib/libcublasLt.so.13 cudnn/lib/libcudnn.so.9; do
  grep -q "calling init: /opt/trainer/lib/.*/nvidia/$library" <<< "$loaded" || fail "$library is not NVIDIA's"
done
# NCCL is opened by several GPUs alone.
[[ -n $(find "$bare/opt/trainer" -path '*/nvidia/nccl/lib/libnccl.so.2') ]] || fail "no NCCL in the image"
message=$(in_image "$entry" train "$config" --set parallel.device=cuda --set data.path=/tmp/digits 2>&1) && fail "trains on no GPU"
[[ $message == *"no NVIDIA driver"* ]] || fail "without a driver: $message"
in_image "$entry" train "$config" --epochs 1 --run-dir /tmp/run --set data.path=/tmp/digits > "$work/log" 2>&1 ||
  { cat "$work/log" >&2; fail "does not train on the CPU"; }
echo "cuda_image_test: $(du -smx "$bare" | cut -f1) MiB"
