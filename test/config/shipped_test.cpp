// The configs that come with the program, in the environment of a sweep.
#include <doctest/doctest.h>

#include <filesystem>

#include "config/config.h"
#include "support/source_files.h"

namespace trainer::config {
namespace {

std::vector<std::string> shipped() {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::source_file("configs"))) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  return paths;
}

TEST_CASE("shipped configs use NUM_GPUS, BATCH_SIZE and DEVICE") {
  REQUIRE(shipped().size() >= 16);
  for (const std::string& path : shipped()) {
    INFO(path);
    const Environment environment{{"NUM_GPUS", "2"}, {"BATCH_SIZE", "24"}, {"DEVICE", "cpu"}};
    const Config config = load_config(path, {}, environment).config;
    CHECK(config.train.batch_size == 24);
    // Its workers are processes of their own.
    if (config.parallel.strategy == Parallel::Strategy::kParameterServer) continue;
    CHECK(config.parallel.replicas == 2);
    CHECK(config.parallel.device == DeviceKind::kCpu);
    CHECK(load_config(path, {}, {}).config.parallel.gpus.kind == Gpus::Kind::kAll);
  }
}

}  // namespace
}  // namespace trainer::config
