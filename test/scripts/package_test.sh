#!/usr/bin/env bash
# `cmake --install` into an empty folder with a blank in its name: what is there works, without the source tree.
set -euo pipefail

build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix="$work/a prefix"
fail() { echo "package_test: $1" >&2; exit 1; }

cmake --install "$build" --prefix "$prefix" > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "the installation fails"; }
cd "$work"
trainer=$prefix/bin/trainer

version=$("$trainer" --version)
source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
if [[ -e $source/.git ]]; then
  [[ $version =~ ^trainer\ [0-9.]+\ \(commit\ [0-9a-f]{12}\)$ ]] || fail "--version names no commit: $version"
else
  [[ $version =~ ^trainer\ [0-9.]+$ ]] || fail "--version: $version"
fi

configs=("$prefix"/share/trainer/configs/*.yaml)
((${#configs[@]} == $(ls "$source"/configs/*.yaml | wc -l))) || fail "configs are missing: ${configs[*]}"
"$trainer" train "$prefix/share/trainer/configs/digits.yaml" --quiet --run-dir "$work/run" \
  --set "data.path=$work/digits" --set data.limit=64 --epochs 1 > "$work/log" 2>&1 ||
  { cat "$work/log" >&2; fail "an installed config does not train"; }

code=0
"$trainer" plan configs/mnist.yaml > /dev/null 2> "$work/log" || code=$?
((code == 2)) && grep -qF "no such file; the installed one is '$prefix/share/trainer/configs/mnist.yaml'" "$work/log" ||
  { cat "$work/log" >&2; fail "the installed config is not named"; }

for file in bash-completion/completions/trainer zsh/site-functions/_trainer fish/vendor_completions.d/trainer.fish; do
  grep -q resume "$prefix/share/$file" || fail "no completion in share/$file"
done
[[ -s $prefix/share/trainer/configs/schema.json ]] || fail "no schema of the configs"
for script in "$source"/datasets/*.sh "$source"/datasets/*.py "$source"/scripts/sweep.sh; do
  installed=$prefix/share/trainer/${script#"$source"/}
  cmp -s "$script" "$installed" || fail "no $installed as in the source tree"
  [[ -x $installed || ! -x $script ]] || fail "$installed cannot be run"
done
[[ $(TRAINER=$trainer "$prefix/share/trainer/scripts/sweep.sh" --help) == *NUM_GPUS* ]] || fail "sweep.sh does not run"

for file in LICENSE README.md CHANGELOG.md; do
  [[ -s $prefix/share/doc/trainer/$file ]] || fail "no $file"
done
echo "ok"
