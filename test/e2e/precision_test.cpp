// train.precision: auto as a user runs it.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e {
namespace {

using test::contains;

// On any processor, a process that sees no instructions for bfloat16.
const Environment kWithoutBFloat16{{"DNNL_MAX_CPU_ISA", "AVX512_CORE"}};

std::string precision_config(const Workspace& work, const std::string& precision) {
  return work.config(
      "model: {layers: [flatten, dense: 10]}\ndata: {format: idx, path: " + work.data() +
      "}\ntrain: {max_steps: 4, batch_size: 32, precision: " + precision +
      "}\nparallel: {device: cpu}\n");
}

// Trains into a folder and returns what the run has recorded.
std::string recorded_precision(const Arguments& arguments, const Path& dir,
                               const Environment& environment) {
  Arguments whole = arguments;
  whole.insert(whole.end(), {"--run-dir", dir.string()});
  const Result done = run(whole, environment);
  INFO(done.err);
  REQUIRE(done.code == 0);
  const std::string config = read_text_file(dir / "config.yaml");
  const std::size_t at = config.find("precision: ");
  REQUIRE(at != std::string::npos);
  return config.substr(at, config.find('\n', at) - at);
}

}  // namespace

TEST_CASE("train records the precision that auto takes, and resume keeps it") {
  const Workspace work;
  const std::string config = precision_config(work, "auto");
  const Path narrow = work / "narrow";
  CHECK(recorded_precision({"train", config}, narrow, kWithoutBFloat16) == "precision: float32");
  const std::string here = recorded_precision({"train", config}, work / "here", {});
  const Result plan = run({"plan", config});
  CHECK(plan.code == 0);
  CHECK(contains(plan.err, "train.precision: auto takes " + here.substr(11)));
  // This processor may prefer the other one.
  CHECK(recorded_precision({"train", config, "--resume", "--set", "train.max_steps=5"}, narrow,
                           {}) == "precision: float32");
}

TEST_CASE("train names the processor where it lacks bfloat16, and servers reject auto") {
  const Workspace work;
  const Result lacking = run({"train", precision_config(work, "bfloat16")}, kWithoutBFloat16);
  CHECK(lacking.code == 2);
  CHECK(contains(lacking.err, "train.precision: bfloat16 is not supported by this device"));
  const Result servers = run(
      {"validate", precision_config(work, "auto"), "--set", "parallel.strategy=parameter_server"});
  CHECK(servers.code == 2);
  CHECK(contains(servers.err, "auto does not go with strategy: parameter_server"));
}

TEST_CASE("plan warns of bfloat16 where the processor multiplies no faster in it") {
  const Workspace work;
  // Where AMX is left out, Intel's processors prefer float32.
  const Environment without_amx{{"DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16"}};
  const Result chosen = run({"plan", precision_config(work, "auto")}, without_amx);
  const Result given = run({"plan", precision_config(work, "bfloat16")}, without_amx);
  CHECK(chosen.code == 0);
  const bool has_bfloat16 = !contains(given.err, "is not supported");
  const bool prefers_float32 = contains(chosen.err, "auto takes float32");
  CHECK(contains(given.err,
                 "train.precision: bfloat16 usually trains at 0.6 to 1.0 times the speed") ==
        (has_bfloat16 && prefers_float32));
  CHECK(prefers_float32 == (!has_bfloat16 || __builtin_cpu_is("intel") != 0));
}

}  // namespace trainer::e2e
