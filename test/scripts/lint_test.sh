#!/usr/bin/env bash
# scripts/lint.sh with a stand-in for clang-tidy: which files it takes, in which order, and what it does with findings.
set -euo pipefail

script=$(cd "$(dirname "$0")/../../scripts" && pwd)/lint.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WORK=$work GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
fail() { echo "lint_test: $1" >&2; exit 1; }

mkdir "$work/bin" "$work/tree"
cat > "$work/bin/clang-tidy-14" << 'STUB'
#!/bin/sh
for last; do :; done
echo "$last" >> "$WORK/checked"
if grep -q wrong "$last"; then echo "$last:1:1: error: wrong"; exit 1; fi
STUB
printf '#!/bin/sh\necho 1\n' > "$work/bin/nproc"
chmod +x "$work"/bin/*
export PATH=$work/bin:$PATH

cd "$work/tree"
mkdir -p scripts lib/base apps build/dev test
cp "$script" scripts/
touch build/dev/compile_commands.json
git init -q -b main
commit() {  # FILE TEXT
  echo "$2" >> "$1"
  git add scripts lib apps test
  git commit -qm "$1"
}
checked() {  # EXPECTED FILES...; of the last call
  local found=""
  [[ ! -e $work/checked ]] || found=$(tr '\n' ' ' < "$work/checked")
  rm -f "$work/checked"
  [[ $found == "${*:+$* }" ]] || fail "checked '$found', expected '$*'"
}

commit test/root.cpp good
commit lib/base/first.cpp good
for ((i = 0; i < 50; ++i)); do commit lib/base/many.cpp good; done
commit apps/main.cpp good
commit test/test.cpp good
commit lib/base/header.h good
scripts/lint.sh --changed > /dev/null || fail "fails without a finding"
checked apps/main.cpp lib/base/many.cpp

git update-ref refs/remotes/origin/main HEAD
scripts/lint.sh --changed > /dev/null
checked apps/main.cpp lib/base/many.cpp
git update-ref refs/remotes/origin/main HEAD~1
scripts/lint.sh --changed > /dev/null
checked
commit lib/base/second.cpp good
echo good > lib/base/new.cpp
scripts/lint.sh --changed > /dev/null
checked lib/base/new.cpp lib/base/second.cpp

scripts/lint.sh apps/main.cpp > /dev/null
checked apps/main.cpp
scripts/lint.sh > /dev/null
checked apps/main.cpp lib/base/first.cpp lib/base/many.cpp lib/base/second.cpp

message=$(scripts/lint.sh --changed --newest 1)
[[ $message == *"the newest 1 of 2 files; 1 left out"* ]] || fail "unclear message: $message"
checked lib/base/new.cpp

commit lib/base/first.cpp wrong
if message=$(scripts/lint.sh 2>&1); then fail "a finding passes"; fi
[[ $message == *"lib/base/first.cpp:1:1: error: wrong"* ]] || fail "unclear message: $message"
checked apps/main.cpp lib/base/first.cpp lib/base/many.cpp lib/base/new.cpp lib/base/second.cpp
if scripts/lint.sh --unknown 2> /dev/null; then fail "accepts an unknown option"; fi
echo "ok"
