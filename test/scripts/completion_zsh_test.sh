#!/usr/bin/env bash
# The completion script in an interactive zsh: a line is typed, Tab is pressed, and the line must be what is expected.
# Exits with 77 where zsh is not installed.
set -euo pipefail

trainer=$(realpath "$1")
command -v zsh > /dev/null || { echo "[missing] zsh"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir configs
touch configs/only.yaml
mkdir functions
"$trainer" completion zsh > functions/_trainer

cat > drive.zsh << 'ZSH'
zmodload zsh/zpty
# Ctrl-G writes the line to a pipe and empties it, so that nothing is read from the terminal's own echo. The pipe is
# opened for reading and writing, so that neither side waits for the other to open it.
cat > .zshrc << 'RC'
PROMPT= RPROMPT=
setopt no_auto_menu no_beep
if [[ -n $FROM_FPATH ]]; then
  fpath=(./functions $fpath)
  autoload -Uz compinit
  compinit -u -D
else
  source ./functions/_trainer
fi
write_line() { print -r -- "[$BUFFER]" >> pipe; BUFFER=; }
zle -N write_line
bindkey '^G' write_line
print ready >> pipe
RC
mkfifo pipe
exec {answers}<> pipe
zpty shell 'ZDOTDIR=. TERM=dumb zsh -i'
wait_for_answer() {
  IFS= read -r -t 30 -u $answers answer || { print -u2 "zsh did not answer within 30 s"; exit 1; }
  zpty -rt shell ignored  # a full terminal would block zsh
}
wait_for_answer
while IFS= read -r line; do
  zpty -wn shell "$line"$'\t\a'
  wait_for_answer
  print -r -- "$answer" >> lines
done < typed
zpty -d shell
ZSH

expect() {  # TYPED EXPECTED
  printf '%s\n' "$1" >> typed
  printf '[%s]\n' "$2" >> expected
}
expect "trainer trai" "trainer train "
expect "trainer --v" "trainer --version "
expect "trainer train --res" "trainer train --resume "
expect "trainer train conf" "trainer train configs/"
expect "trainer train configs/x.yaml --quiet --ov" "trainer train configs/x.yaml --quiet --overwrite "
expect "trainer train c.yaml --set train.batch" "trainer train c.yaml --set train.batch_size="
expect "trainer verify re" "trainer verify re"
expect "trainer verify res" "trainer verify resume "
expect "trainer evaluate run --split v" "trainer evaluate run --split validation "
expect "trainer launch -n 2 -- trai" "trainer launch -n 2 -- train "
expect "trainer completion f" "trainer completion fish "

# Once as `source <(trainer completion zsh)`, once found in $fpath as an installed program's.
for from_fpath in "" 1; do
  rm -f pipe lines
  FROM_FPATH=$from_fpath timeout 120 zsh -f drive.zsh || { echo "completion_zsh_test: zsh failed" >&2; exit 1; }
  diff expected lines ||
    { echo "completion_zsh_test: lines differ (< expected, > found; from \$fpath: '$from_fpath')" >&2; exit 1; }
done
echo "ok"
