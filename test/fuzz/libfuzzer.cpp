// The entry of libFuzzer: the first argument names the target. `TARGET --write-long-inputs FOLDER`
// writes the inputs of long_inputs() and ends.
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
  if (*argc == 4 && (*argv)[2] == std::string("--write-long-inputs")) {
    const std::filesystem::path folder = (*argv)[3];
    int number = 0;
    for (const auto& input : trainer::fuzz::long_inputs(chosen->name)) {
      std::ofstream file(folder / ("long-" + std::to_string(number++)), std::ios::binary);
      file.write(reinterpret_cast<const char*>(input.data()),
                 static_cast<std::streamsize>(input.size()));
    }
    std::exit(0);
  }
  for (int i = 1; i + 1 < *argc; ++i) (*argv)[i] = (*argv)[i + 1];
  --*argc;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({data, size});
  return 0;
}
