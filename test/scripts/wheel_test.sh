#!/usr/bin/env bash
# The wheels of a built tree: installed without network in an empty environment, the program trains the digits, at most
# 20 s after pip began; the plugin of imagetrainer-cuda takes its libraries from the folders of NVIDIA's wheels. `bare` as
# second argument repeats the training in a bare root of another Debian release.
set -euo pipefail

# shellcheck source=test/scripts/package_support.sh
source "$(dirname "$0")/package_support.sh"
make_package wheel.sh "$@"
wheel=$(ls "$work"/imagetrainer-*-py3-none-manylinux_2_34_x86_64.whl)
bytes=$(stat -c %s "$wheel")
((bytes <= 40 << 20)) || fail "the wheel has $bytes bytes, more than 40 MiB"
auditwheel=$(dirname "$("$source/scripts/python_env.sh" wheel)")/auditwheel
shown=$("$auditwheel" show "$wheel" | tr '\n' ' ')
[[ $shown =~ following\ platform\ tag:\ \"manylinux_2_([0-9]+)_x86_64\" ]] && ((BASH_REMATCH[1] <= 34)) ||
  fail "auditwheel show does not agree: $shown"

metadata=$(unzip -p "$wheel" '*/METADATA')
for line in "Name: imagetrainer" "Author: The trainer project" "License-Expression: Apache-2.0" "License-File: LICENSE"; do
  grep -qx "$line" <<< "$metadata" || fail "the wheel has no '$line': $metadata"
done

python3 -m venv "$work/an environment"
environment="$work/an environment"
cd "$work"
start=$EPOCHREALTIME
"$environment/bin/pip" install --quiet --no-index "$wheel"
version=$(env -i "$environment/bin/trainer" --version)
[[ $version == "$("$build/apps/trainer/trainer" --version)" ]] || fail "--version prints $version"
env -i "$environment/bin/trainer" train "$environment/share/trainer/configs/digits.yaml" --run-dir "$work/run" \
  --set "data.path=$work/digits" > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "the program does not train"; }
milliseconds=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
grep -qE 'accuracy 0\.9[0-9]' "$work/log" || { cat "$work/log" >&2; fail "the accuracy is below 0.9"; }
((milliseconds <= 20000)) || fail "pip install and the training took $milliseconds ms, more than 20 s"
echo "wheel_test: $milliseconds ms from pip install to the trained model, the wheel has $bytes bytes"

# The exit code is that of the program.
code=0
"$environment/bin/trainer" validate /nonexistent.yaml > /dev/null 2>&1 || code=$?
((code == 2)) || fail "a missing config exits with $code"
[[ $(env -i "$environment/bin/python" -m imagetrainer --version) == "$version" ]] || fail "python -m imagetrainer does not run"

# The module, with NumPy from another environment: what the wheel needs is there, and it is the program's version.
if "$environment/bin/python" -c 'import imagetrainer; imagetrainer.Model' 2> "$work/log"; then fail "there is NumPy"; fi
grep -q 'needs NumPy: pip install numpy' "$work/log" || { cat "$work/log" >&2; fail "nothing names NumPy"; }
python=$("$source/scripts/python_env.sh" numpy pillow)
packages=$("$python" -c 'import pathlib, numpy; print(pathlib.Path(numpy.__file__).parents[1])')
PYTHONPATH=$packages "$environment/bin/python" "$source/test/scripts/python_module_test.py" "$environment/bin/trainer" \
  > "$work/log" 2>&1 || { cat "$work/log" >&2; fail "the module fails"; }

for command in plan validate new; do
  "$environment/bin/trainer" "$command" configs/mnist.yaml > "$work/log" 2>&1 && fail "$command finds a config"
  grep -qF "the installed one is '$environment/share/trainer/configs/mnist.yaml'" "$work/log" ||
    { cat "$work/log" >&2; fail "$command does not name the installed config"; }
done

# Every library comes from the wheel, or is one that every distribution has; none is for LDAP or Kerberos. Those of
# libtrainer.so are some of the program's.
program=$(echo "$environment"/lib/python3*/site-packages/imagetrainer/trainer)
of_the_system='/(lib(c|m|dl|pthread|rt|stdc[+][+]|gcc_s|z)|ld-linux-x86-64)\.so\.[0-9]+$'
while read -r library; do
  [[ $library == "$environment"/* || $library =~ $of_the_system ]] || fail "the program takes $library from the system"
  [[ ! $library =~ lib(ldap|lber|gssapi|krb5|k5crypto|sasl2) ]] || fail "$library is in the wheel"
done < <(ldd "$program" "${program%/*}/libtrainer.so" | sed -nE 's/.*=> (\/.*) \(.*/\1/p')

# What the Debian package installs is there too.
"$source/scripts/package/deb.sh" --build "$build" --output "$work" > /dev/null
dpkg-deb --fsys-tarfile "$(ls "$work"/trainer_*.deb)" | tar -t | sed -n 's|^\./usr/\(share/.*[^/]\)$|\1|p' > "$work/files"
(($(wc -l < "$work/files") > 40)) || fail "the Debian package has too few files"
while read -r file; do
  # Debian's own documents of a package are not the program's.
  [[ $file == share/doc/trainer/copyright || -e $environment/$file || -e $environment/${file%.gz} ]] ||
    fail "the wheel lacks $file of the Debian package"
done < "$work/files"
[[ -x $environment/share/trainer/datasets/mnist.sh ]] || fail "mnist.sh cannot be run"

# ---- imagetrainer-cuda
plugin=$(ls "$work"/imagetrainer_cuda-*.whl 2> /dev/null) || { echo "ok; this build has no CUDA plugin"; exit 0; }
metadata=$(unzip -p "$plugin" '*/METADATA')
grep -qx "Requires-Dist: imagetrainer==[0-9.]*" <<< "$metadata" || fail "the plugin is for no program: $metadata"
for name in nvidia-cudnn-cu13 nvidia-nccl-cu13 nvidia-cublas nvidia-cuda-runtime; do
  grep -qE "^Requires-Dist: $name==[0-9]+\.[0-9]+\.\*\$" <<< "$metadata" || fail "no minor version of $name: $metadata"
done
if "$environment/bin/pip" install --quiet --no-index "$plugin" > "$work/log" 2>&1; then
  fail "imagetrainer-cuda installs without NVIDIA's wheels"
fi
"$environment/bin/pip" install --quiet --no-index --no-deps "$plugin"
# Links in the place of NVIDIA's wheels, which have 1.3 GB, to the libraries that the plugin was built with.
packages=$(dirname "$(dirname "$program")")
for library in cu13/libcudart.so.13 cu13/libcublasLt.so.13 cudnn/libcudnn.so.9; do
  mkdir -p "$packages/nvidia/${library%/*}/lib"
  found=$(ldd "$build/apps/trainer/libtrainer_cuda.so" | sed -nE "s/.*${library##*/} => (\/.*) \(.*/\1/p")
  ln -s "$(readlink -f "$found")" "$packages/nvidia/${library%/*}/lib/${library##*/}"
done
loaded=$(env -i LD_DEBUG=libs "$environment/bin/trainer" plan "$environment/share/trainer/configs/digits.yaml" \
  --device h100 --set "data.path=$work/digits" 2>&1) || { tail -20 <<< "$loaded" >&2; fail "no plan for a GPU"; }
for library in cu13/lib/libcudart.so.13 cu13/lib/libcublasLt.so.13 cudnn/lib/libcudnn.so.9; do
  grep -qF "calling init: $packages/imagetrainer_cuda/../nvidia/$library" <<< "$loaded" ||
    fail "$library was not loaded from the folder of NVIDIA's wheel"
done
echo "ok"
