// The entry of libFuzzer: the first argument names the target.
#include <cstdlib>
#include <iostream>
#include <string>

#include "fuzz.h"

namespace {

const trainer::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (const trainer::fuzz::Target& target : trainer::fuzz::targets()) {
    if (*argc > 1 && (*argv)[1] == std::string(target.name)) chosen = &target;
  }
  if (chosen == nullptr) {
    std::cerr << "the first argument must be a target:";
    for (const trainer::fuzz::Target& target : trainer::fuzz::targets()) {
      std::cerr << ' ' << target.name;
    }
    std::cerr << '\n';
    std::exit(2);
  }
  for (int i = 1; i + 1 < *argc; ++i) (*argv)[i] = (*argv)[i + 1];
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({data, size});
  return 0;
}
