#!/usr/bin/env bash
# The Debian package of a built tree: its fields, what is in it, and that its program runs. `bare` as second argument
# installs it in a bare Debian 12, where that can be made.
set -euo pipefail

# shellcheck source=test/scripts/package_support.sh
source "$(dirname "$0")/package_support.sh"
make_package deb.sh "$@"
package=$(ls "$work"/trainer_*.deb)
[[ $(dpkg-deb --field "$package" Package) == trainer ]] || fail "the package has another name"
depends=$(dpkg-deb --field "$package" Depends)
for library in libc6 libcurl4 libdnnl2 libyaml-cpp0.7 libre2-9 libutf8proc2 libgrpc++; do
  [[ $depends == *"$library"* ]] || fail "does not depend on $library: $depends"
done
dpkg-deb --extract "$package" "$work/unpacked"
"$work/unpacked/usr/bin/trainer" --version
for file in share/trainer/configs/digits.yaml share/man/man1/trainer.1 share/doc/trainer/LICENSE \
  share/bash-completion/completions/trainer share/trainer/configs/schema.json \
  share/trainer/datasets/mnist.sh share/trainer/datasets/download.sh share/trainer/scripts/sweep.sh; do
  [[ -s $work/unpacked/usr/$file ]] || fail "no $file in the package"
done
[[ -z $(find "$work/unpacked" -name '*cuda*') ]] || fail "the CUDA plugin is in the package of the CPU"
[[ -z $(find "$work/unpacked" -path '*home*' -o -path '*build*') ]] || fail "a path of this machine is in the package"
echo "ok"
