# Shared by test.sh and check.sh, which source this file in the root of the repository.
jobs=$(nproc)

say() { echo "==== $1 (after $SECONDS s)"; }

# Paths are relative to the root, so that clones in other folders find each other's results.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# OpenMP's threads spin while they wait, which takes from tests that run beside.
export OMP_WAIT_POLICY=passive
if [[ -z ${TRAINER_SHARED_DATA:-} && -d ../shared/data ]]; then
  TRAINER_SHARED_DATA=$(cd ../shared/data && pwd)
  export TRAINER_SHARED_DATA
fi

# The CUDA backend is part of the build where its libraries are found, unless an option leaves it out.
configure() {  # PRESET [CMAKE OPTION...]
  local preset=$1
  shift
  mkdir -p "build/$preset"
  cmake --preset "$preset" -DTRAINER_TESTS=ON -DTRAINER_WERROR=ON -DCMAKE_CXX_COMPILER_LAUNCHER=ccache "$@" \
    > "build/$preset/configure.log" 2>&1 || { cat "build/$preset/configure.log"; return 1; }
}

targets() {  # PRESET REGEX
  ninja -C "build/$1" -t targets all | sed -nE "s/^($2): phony\$/\1/p"
}

build() {  # PRESET [TARGETS...]
  local preset=$1
  shift
  say "build $preset"
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} -- --quiet
}
