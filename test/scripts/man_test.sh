#!/usr/bin/env bash
# The manual page of `trainer man`: groff has nothing to say against it, and every command and option of --help is there.
set -euo pipefail

trainer=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "man_test: $1" >&2; exit 1; }

"$trainer" man > "$work/trainer.1"
command -v groff > /dev/null || { echo "[missing] groff"; exit 77; }
groff -man -ww -b -z -Tutf8 "$work/trainer.1" 2> "$work/warnings" || true
[[ ! -s $work/warnings ]] || fail "groff warns: $(head -20 "$work/warnings")"
# -P -c: without escapes of the terminal; very wide, so that no name is broken.
MANWIDTH=1000 groff -man -Tascii -rLL=900n -P-cbou "$work/trainer.1" > "$work/text"

"$trainer" --help | sed -n 's/^  \([a-z]\+\)  .*/\1/p' > "$work/commands"
(($(wc -l < "$work/commands") >= 19)) || fail "--help lists few commands: $(cat "$work/commands")"
while read -r name; do
  grep -q "^ *trainer $name" "$work/text" || fail "no section of $name"
  "$trainer" "$name" --help | grep -o '^ *-[^ ]*' | grep -o -- '--[a-z-]*' | while read -r option; do
    [[ $option == --help ]] || grep -q -- "$option" "$work/text" || fail "no $option of $name"
  done
done < "$work/commands"
for part in "EXIT STATUS" ENVIRONMENT "trainer train configs/digits.yaml"; do
  grep -q "$part" "$work/text" || fail "no '$part'"
done
# Lines and their number of the page as a reader sees it: nothing was swallowed by a request.
(($(wc -l < "$work/text") > 300)) || fail "the page has only $(wc -l < "$work/text") lines"
echo "ok"
