# Sourced by the scripts beside it.
#
#   build_tree ROOT   builds the program, and the CUDA plugin where its libraries are found, in ROOT/build/package

build_tree() {
  local root=$1 targets=(trainer libtrainer)
  cmake -S "$root" -B "$root/build/package" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTRAINER_TESTS=OFF > /dev/null
  if ninja -C "$root/build/package" -t targets all | grep -q '^trainer_cuda: phony$'; then targets+=(trainer_cuda); fi
  cmake --build "$root/build/package" --target "${targets[@]}"
}
