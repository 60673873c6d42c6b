// True if tests run on the models of CUDA's libraries (test/cuda) instead of GPUs.
#pragma once

#include <cstdlib>
#include <string_view>

namespace trainer::test {

// A model of a device has a clock of its own: a kernel takes so many microseconds, whatever the
// processor needs for it.
inline bool uses_fake_gpus() {
  const char* plugin = std::getenv("TRAINER_CUDA_PLUGIN");
  return plugin != nullptr && std::string_view(plugin).find("cuda_fake") != std::string_view::npos;
}

}  // namespace trainer::test
