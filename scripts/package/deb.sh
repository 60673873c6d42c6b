#!/usr/bin/env bash
# Builds the Debian package, and with --check installs it in a bare Debian 12 and trains there.
#
#   scripts/package/deb.sh [--build FOLDER] [--output FOLDER] [--check]
#
# --build takes a tree that is built (default: builds build/package); the package lies in --output (default: that tree).
# --check needs root and the network: debootstrap makes the root folder, which is removed afterwards. Exits with 77 where
# it cannot be made.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/package/built_tree.sh
source "$root/scripts/package/built_tree.sh"
# shellcheck source=scripts/package/bare_root.sh
source "$root/scripts/package/bare_root.sh"
build='' output='' check=''
while (($#)); do
  case $1 in
    --build) build=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --check) check=1; shift ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "deb.sh: unknown argument '$1'; --build, --output and --check are known" >&2; exit 2 ;;
  esac
done

"$root/scripts/install_deps.sh" --package > /dev/null
if [[ -z $build ]]; then
  build=$root/build/package
  build_tree "$root"
fi
output=${output:-$build}
mkdir -p "$output"
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$output" > "$output/cpack.log" 2>&1 ||
  { cat "$output/cpack.log" >&2; exit 1; }
package=$(ls "$output"/trainer_*.deb)
echo "deb.sh: $package ($(($(stat -c %s "$package") / 1024)) KiB)"
[[ -n $check ]] || exit 0

make_bare_root bookworm "$output/debootstrap.log"
cp "$package" "$bare/tmp/trainer.deb"
cp /etc/resolv.conf "$bare/etc/resolv.conf"
inside apt-get install -y -qq --no-install-recommends /tmp/trainer.deb
inside trainer --version
inside trainer train /usr/share/trainer/configs/digits.yaml --epochs 1 --run-dir /tmp/run --set data.path=/tmp/digits
inside trainer evaluate /tmp/run
echo "deb.sh: the package trains in a bare Debian 12"
