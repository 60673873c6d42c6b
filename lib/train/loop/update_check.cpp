#include "train/loop/update_check.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace trainer::train {
namespace {

constexpr std::int64_t kUpdates = 50;
constexpr std::array<std::int64_t, 3> kGradientUpdates = {1, 10, kUpdates};
// The layers before a kernel of zeros get no gradient in the first update.
constexpr std::int64_t kMinUpdates = 2;
constexpr std::int64_t kChunk = 1 << 16;  // values that are read at once
constexpr std::size_t kMaxNames = 8;

// Returns the trained parameters by name.
std::map<std::string, backend::Segment> list_segments(engine::Replica& engine) {
  std::map<std::string, backend::Segment> segments;
  for (backend::Segment& segment : engine.variables().flat().segments) {
    const std::string name = segment.parameter;
    segments.emplace(name, std::move(segment));
  }
  return segments;
}

// Hashes every bit of the values. Four independent chains keep up with the memory.
class Checksum {
 public:
  void add(std::span<const float> values) {
    std::size_t i = 0;
    for (; i + 8 <= values.size(); i += 8) {
      std::uint64_t words[4];
      std::memcpy(words, &values[i], sizeof words);
      for (std::size_t k = 0; k < 4; ++k) mix(k, words[k]);
    }
    for (; i < values.size(); ++i) mix(0, std::bit_cast<std::uint32_t>(values[i]));
  }
  std::uint64_t value() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t chain : chains_) sum = (sum ^ chain) * kPrime;
    return sum;
  }

 private:
  // FNV-1a's step on a word in place of a byte.
  static constexpr std::uint64_t kPrime = 0x100000001b3u;
  void mix(std::size_t k, std::uint64_t word) { chains_[k] = (chains_[k] ^ word) * kPrime; }

  std::array<std::uint64_t, 4> chains_{};
};

}  // namespace

void UpdateCheck::begin_stage() {
  if (!context_.job.group.is_chief()) return;
  engine::Replica& engine = context_.job.engine.replica();
  Watch watch;
  for (const backend::Segment& segment : engine.variables().flat().segments) {
    if (!seen_.insert(segment.parameter).second) continue;
    const std::int64_t updates_before = static_cast<std::int64_t>(segment.update.updates_before);
    const bool is_past = context_.state.step - updates_before >= kUpdates;  // in a resumed run
    const bool is_still = segment.update.learning_rate_multiplier == 0 ||
                          engine.parameters_without_gradient().contains(segment.parameter);
    if (is_past || is_still) continue;
    watch.parameters.push_back({segment.parameter, compute_checksum(segment)});
  }
  if (!watch.parameters.empty()) watches_.push_back(std::move(watch));
}

void UpdateCheck::after_step(const hooks::StepRecord& record) {
  if (watches_.empty() || record.skipped || record.learning_rate == 0) return;
  learning_rate_ = record.learning_rate;
  for (Watch& watch : watches_) {
    ++watch.updates;
    if (std::ranges::find(kGradientUpdates, watch.updates) != kGradientUpdates.end()) {
      read_gradients(watch);
    }
    if (watch.updates == kUpdates) report(watch);
  }
  std::erase_if(watches_, [](const Watch& watch) { return watch.updates == kUpdates; });
}

void UpdateCheck::finish() {
  for (Watch& watch : watches_) {
    if (watch.updates >= kMinUpdates) report(watch);
  }
  watches_.clear();
}

void UpdateCheck::read_gradients(Watch& watch) {
  const auto segments = list_segments(context_.job.engine.replica());
  for (Parameter& parameter : watch.parameters) {
    const auto segment = segments.find(parameter.name);
    if (segment == segments.end() || !parameter.is_gradient_zero) continue;
    parameter.is_gradient_zero = is_gradient_zero(segment->second);
  }
}

void UpdateCheck::report(Watch& watch) {
  const auto segments = list_segments(context_.job.engine.replica());
  std::vector<std::string> without_gradient, unchanged;
  for (const Parameter& parameter : watch.parameters) {
    const auto segment = segments.find(parameter.name);
    if (segment == segments.end()) continue;  // a later stage has frozen it again
    const bool is_unchanged = compute_checksum(segment->second) == parameter.checksum;
    if (parameter.is_gradient_zero && (is_unchanged || watch.updates == kUpdates)) {
      without_gradient.push_back(parameter.name);
    } else if (is_unchanged) {
      unchanged.push_back(parameter.name);
    }
  }
  const bool is_whole = watch.updates == kUpdates;
  if (!without_gradient.empty()) {
    context_.job.warn(concat(
        "the gradient of ", describe(without_gradient), " is 0 in ",
        is_whole ? "updates 1, 10 and 50" : "all updates of this run",
        ". Likely causes: units of relu that are 0 for every sample (try a lower learning rate, "
        "another initializer or leaky_relu), inputs of the layer that are all 0 (see "
        "data.normalize), or gradients that are too small for train.precision"));
  }
  if (!unchanged.empty()) {
    context_.job.warn(concat(
        watch.updates, " updates did not change ", describe(unchanged),
        ", whose gradient is not 0. The learning rate, ", learning_rate_,
        ", may be too small for these values. If it is not, please report this with the config"));
  }
}

std::uint64_t UpdateCheck::compute_checksum(const backend::Segment& segment) {
  const backend::Variables& variables = context_.job.engine.replica().variables();
  Checksum checksum;
  for (std::int64_t at = 0; at < segment.count; at += kChunk) {
    values_.resize(std::min(kChunk, segment.count - at));
    variables.read_flat({backend::FlatBuffer::Kind::kParameters}, segment.offset + at, values_);
    checksum.add(values_);
  }
  return checksum.value();
}

bool UpdateCheck::is_gradient_zero(const backend::Segment& segment) {
  std::int64_t chunk = 256;  // nearly always has a gradient that is not 0
  for (std::int64_t at = 0; at < segment.count; at += std::exchange(chunk, kChunk)) {
    values_.resize(std::min(chunk, segment.count - at));
    context_.job.engine.replica().read_gradient(segment.offset + at, values_);
    if (std::ranges::any_of(values_, [](float value) { return value != 0; })) return false;
  }
  return true;
}

// Returns "'a/kernel' (configs/x.yaml:7:5), 'a/bias' (configs/x.yaml:7:5) and 3 others".
std::string UpdateCheck::describe(const std::vector<std::string>& parameters) const {
  std::vector<std::string> parts;
  const graph::Graph& model = context_.job.engine.replica().model();
  for (const graph::LayerInfo& layer : model.layers) {
    for (const graph::ValueId id : layer.parameters) {
      const std::string& name = model[id].name;
      if (std::ranges::find(parameters, name) == parameters.end()) continue;
      const std::string place = layer.loc.known() ? ", " + to_string(layer.loc) : "";
      parts.push_back(concat("'", name, "' (layer ", layer.name, place, ")"));
    }
  }
  if (parts.size() <= kMaxNames) return join(parts);
  const std::size_t others = parts.size() - kMaxNames;
  parts.resize(kMaxNames);
  return concat(join(parts), " and ", others, " more");
}

}  // namespace trainer::train
