// The section train.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/spelling.h"

namespace trainer::config {

class FieldVisitor;

// The arithmetic of the layers; parameters are always float32. kTf32 is float32 whose products are
// rounded to 10 bits of fraction. The device must support the precision. kAuto is kBFloat16 where
// Backend::prefers_bfloat16() is true, else kFloat32; a run records which.
enum class Precision { kFloat32, kTf32, kBFloat16, kFloat16, kAuto };

// The factor of the loss of float16 before backward, with which small gradients do not vanish.
struct LossScale {
  std::optional<double> fixed;  // dynamic when left out: halved on overflow, doubled after a while
};

// The factor of the loss of a training sample, by its class.
struct ClassWeight {
  // scikit-learn's "balanced": samples / (classes * samples of the class).
  bool balanced = false;
  // By name or number, in the order of the file; 1 for classes that are not named.
  std::vector<std::pair<std::string, double>> weights;
  SourceLoc loc;
};

struct EarlyStop {
  std::string metric = "validation/loss";
  std::int64_t patience = 3;  // evaluations without improvement
  double min_delta = 0;
  bool restore_best = false;  // the run ends with the parameters of its best evaluation
  SourceLoc loc;
};

// The run ends when an evaluation reaches the value.
struct StopAt {
  std::string metric = "validation/accuracy";
  double value = 0;  // required
  SourceLoc loc;
};

// Where the outputs of the frozen layers are kept, which are then computed once per image. kAuto:
// in memory if they fit, else in a file of the run folder, and nowhere if that is not possible.
// kOn: the same, but an error if it is not possible. kMemory and kDisk: only there, or an error.
enum class CacheFeatures { kAuto, kOn, kMemory, kDisk, kOff };
// The activations that backward computes again instead of keeping them; see
// lib/compile/recompute.cpp.
enum class Recompute { kNone, kBlocks };

// Samples per step and replica: a number, or the most that fit the device's memory, which
// train::resolve_batch_size() finds before the config is used.
class BatchSize {
 public:
  BatchSize(std::int64_t samples) : samples_(samples) {}
  static BatchSize automatic() { return {0}; }
  bool is_automatic() const { return samples_ == 0; }
  // Throws ConfigError if resolve_batch_size() has not set the number.
  operator std::int64_t() const {
    if (samples_ == 0) fail();
    return samples_;
  }

 private:
  [[noreturn]] static void fail();
  std::int64_t samples_;
};

struct Train {
  std::optional<double> epochs;  // one of epochs and max_steps is required
  std::optional<std::int64_t> max_steps;
  BatchSize batch_size = 32;
  std::optional<double> memory_mb;
  Precision precision = Precision::kFloat32;
  std::optional<LossScale> loss_scale;  // kFloat16 only; dynamic when left out
  CacheFeatures cache_features = CacheFeatures::kAuto;
  Recompute recompute = Recompute::kNone;
  std::optional<ClassWeight> class_weight;
  // By label, the factor of the loss of its positives. `balanced`: negatives / positives.
  std::optional<ClassWeight> pos_weight;
  std::optional<EarlyStop> early_stop;
  std::optional<StopAt> stop_at;
  bool stop_on_divergence = false;  // a diverging loss ends the run instead of causing a warning
  SourceLoc loc;
};

constexpr auto spellings(Precision) {
  using enum Precision;
  return std::to_array<Spelling<Precision>>({{kFloat32, "float32"},
                                             {kTf32, "tf32"},
                                             {kBFloat16, "bfloat16"},
                                             {kFloat16, "float16"},
                                             {kAuto, "auto"},
                                             {kFloat32, "fp32"},
                                             {kBFloat16, "bf16"},
                                             {kFloat16, "fp16"}});
}
constexpr auto spellings(CacheFeatures) {
  using enum CacheFeatures;
  return std::to_array<Spelling<CacheFeatures>>(
      {{kAuto, "auto"}, {kOn, "on"}, {kMemory, "memory"}, {kDisk, "disk"}, {kOff, "off"}});
}
constexpr auto spellings(Recompute) {
  using enum Recompute;
  return std::to_array<Spelling<Recompute>>({{kNone, "none"}, {kBlocks, "blocks"}});
}
void fields(FieldVisitor& v, Train& s);

}  // namespace trainer::config
