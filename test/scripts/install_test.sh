#!/usr/bin/env bash
# scripts/install_deps.sh with stand-ins for apt and dpkg: quiet when all is there, asks for what is missing only, and
# says what could not be installed.
set -euo pipefail

script=$(cd "$(dirname "$0")/../../scripts" && pwd)/install_deps.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WORK=$work

cat > "$work/dpkg-query" << 'STUB'
#!/bin/sh
for last; do :; done
grep -qx "$last" "$WORK/absent" 2> /dev/null && exit 1
printf 'install ok installed'
STUB
cat > "$work/apt-get" << 'STUB'
#!/bin/sh
echo "$*" >> "$WORK/calls"
[ "$1" = update ] || [ ! -e "$WORK/broken" ]
STUB
printf '#!/bin/sh\nexec "$@"\n' > "$work/sudo"
chmod +x "$work"/{dpkg-query,apt-get,sudo}
export PATH=$work:$PATH

fail() { echo "install_test: $1" >&2; exit 1; }

"$script" --test > /dev/null || fail "fails although all is installed"
[[ ! -e $work/calls ]] || fail "calls apt although all is installed: $(cat "$work/calls")"

printf 'libdnnl-dev\ndoctest-dev\n' > "$work/absent"
"$script" > /dev/null || fail "fails to install"
grep -q 'install .*libdnnl-dev doctest-dev$' "$work/calls" || fail "asked apt for: $(cat "$work/calls")"

touch "$work/broken"
if message=$("$script" 2>&1); then fail "ignores apt's failure"; fi
[[ $message == *"apt could not install: libdnnl-dev doctest-dev"* ]] || fail "unclear message: $message"

if "$script" --unknown 2> /dev/null; then fail "accepts an unknown argument"; fi
echo "ok"
