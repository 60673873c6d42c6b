#include "backend/exchange.h"

#include <algorithm>

namespace trainer::backend {

std::vector<Slice> make_buckets(std::span<const Segment> segments, std::int64_t count,
                                std::int64_t bytes) {
  std::vector<Slice> buckets;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool at_end = i + 1 == segments.size();
    const std::int64_t last = at_end ? count : segments[i + 1].offset;
    if (!at_end && (last - first) * static_cast<std::int64_t>(sizeof(float)) < bytes) continue;
    buckets.push_back({first, last});
    first = last;
  }
  return buckets;
}

std::vector<std::pair<int, std::size_t>> find_bucket_ends(
    std::span<const std::pair<int, std::int64_t>> gradient_writers,
    std::span<const Slice> buckets) {
  std::vector<std::pair<int, std::size_t>> ends;
  int last = 0;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    for (const auto& [instruction, offset] : gradient_writers) {
      const bool inside = offset >= buckets[bucket].first && offset < buckets[bucket].last;
      if (inside) last = std::max(last, instruction);
    }
    ends.emplace_back(last, bucket);
  }
  return ends;
}

std::int64_t max_all_samples(const CompileOptions& options, std::int64_t ranks) {
  const std::int64_t given = options.reduction.max_all_samples;
  return given > 0 ? given : options.max_samples * ranks;
}

Trailer::Trailer(std::vector<std::span<float>> statistics, bool averaged)
    : statistics_(std::move(statistics)), averaged_(averaged) {
  for (const std::span<float> statistic : statistics_) count_ += statistic.size();
  before_.reserve(count_);
}

void Trailer::remember() {
  before_.clear();
  for (const std::span<float> statistic : statistics_) {
    before_.insert(before_.end(), statistic.begin(), statistic.end());
  }
}

void Trailer::write(std::span<float> to, bool finite) const {
  to[0] = finite ? 0.0f : 1.0f;
  to[1] = moved_ ? 1.0f : 0.0f;
  if (!averaged_) return;
  auto at = to.begin() + 2;
  for (const std::span<float> statistic : statistics_) {
    at = moved_ ? std::ranges::copy(statistic, at).out : std::fill_n(at, statistic.size(), 0.0f);
  }
}

bool Trailer::read(std::span<const float> sum) {
  if (sum[0] != 0.0f) {
    assign(before_.data(), 1);
  } else if (sum[1] == 0.0f) {
    return true;
  } else if (averaged_) {
    assign(sum.data() + 2, 1 / sum[1]);
  }
  moved_ = false;
  return sum[0] == 0.0f;
}

void Trailer::assign(const float* from, float factor) {
  for (const std::span<float> statistic : statistics_) {
    std::transform(from, from + statistic.size(), statistic.begin(),
                   [factor](float value) { return value * factor; });
    from += statistic.size();
  }
}

}  // namespace trainer::backend
