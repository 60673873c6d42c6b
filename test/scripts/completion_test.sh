#!/usr/bin/env bash
# The completion script in bash itself: what is offered at the cursor. fish reads its script where it is installed.
set -euo pipefail

trainer=$1
source <("$trainer" completion bash)

expect() {  # "WORDS UP TO THE CURSOR" EXPECTED...; a trailing blank begins a new word
  local line=$1 offered
  shift
  read -ra COMP_WORDS <<< "$line"
  [[ $line == *' ' ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _trainer
  offered="${COMPREPLY[*]-}"
  if [[ $offered != "$*" ]]; then
    echo "at '$line': expected '$*', found '$offered'" >&2
    exit 1
  fi
}

expect "trainer tr" train
expect "trainer --v" --version
expect "trainer train --res" --resume
expect "trainer train configs/x.yaml --quiet --ov" --overwrite
expect "trainer train c.yaml --set train.batch" train.batch_size=
expect "trainer train c.yaml --set optimizer.sgd.m" optimizer.sgd.momentum=
expect "trainer train c.yaml --set data.normalize.s" data.normalize.scale= data.normalize.std=
expect "trainer train c.yaml --epochs "
expect "trainer verify re" replicas resume
expect "trainer evaluate run --split v" validation
expect "trainer predict run --format " table csv jsonl
expect "trainer launch -n 2 -- tr" train
expect "trainer sweep c.yaml --launcher s" slurm
expect "trainer find b" batch-size
expect "trainer completion f" fish

if command -v fish > /dev/null; then "$trainer" completion fish | fish -n /dev/stdin; fi
