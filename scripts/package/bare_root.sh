# Sourced by the scripts beside it: a minimal root folder of a Debian release, in which a package is tried.
#
#   make_bare_root RELEASE LOG [PACKAGE,...]   sets `bare`, the folder, which the script's end removes; exits with 77
#                                              where the root cannot be made
#   inside COMMAND...                          runs a command in it, with an empty environment

make_bare_root() {
  local release=$1 log=$2 packages=${3:-} script
  script=$(basename "$0")
  cannot() { echo "$script: cannot make a bare root of $release here: $1" >&2; exit 77; }
  ((EUID == 0)) || cannot "not root"
  bare=$(mktemp -d)
  trap 'umount "$bare/proc" 2> /dev/null || true; rm -rf "$bare"' EXIT
  debootstrap --variant=minbase ${packages:+--include="$packages"} "$release" "$bare" > "$log" 2>&1 ||
    cannot "debootstrap fails, see $log"
  mount -t proc proc "$bare/proc" || cannot "no /proc"
}

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$bare" "$@"; }
