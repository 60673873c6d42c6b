# Sourced by the tests of the scripts in scripts/package.
#
#   make_package SCRIPT BUILD [bare]   makes the package of a built tree in `work`. With `bare` it installs the package in
#                                      a bare root of another Debian release, trains there, and ends the test
#
# It sets `build`, `source`, the source tree, and `work`, a folder that the end of the test removes.

fail() { echo "$(basename "$0" .sh): $1" >&2; exit 1; }

make_package() {
  local script
  build=$(realpath "$2")
  source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
  script=$source/scripts/package/$1
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if [[ ${3:-} == bare ]]; then
    "$script" --build "$build" --output "$work" --check
    exit
  fi
  "$script" --build "$build" --output "$work"
}
