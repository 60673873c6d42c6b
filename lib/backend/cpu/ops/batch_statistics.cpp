#include "backend/cpu/ops/batch_statistics.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace trainer::backend::cpu {
namespace {

using simd::GradientSums;
using Take = std::function<void(std::int64_t, const GradientSums&)>;

// Calls use(find), where find(lane) returns the argument `shown` of that lane, once all lanes have
// called; returns once use() has returned on all lanes. All lanes pass the same type.
template <class Shown, class Use>
void with_all_lanes(const CallContext& c, const Shown& shown, const Use& use) {
  c.exchange->data()[c.lane] = const_cast<Shown*>(&shown);
  c.barrier->wait(c.lanes);
  use([&](int lane) -> const Shown& {
    return *static_cast<const Shown*>(c.exchange->data()[lane]);
  });
  c.barrier->wait(c.lanes);
}

// The count, the mean and the sum of squared distances from the mean. add() is Chan et al.'s
// pairwise update.
struct Spread {
  double count = 0, mean = 0, square = 0;

  void add(const Spread& other) {
    if (other.count == 0) return;
    const double delta = other.mean - mean, all = count + other.count;
    square += other.square + delta * delta * count * other.count / all;
    mean += delta * other.count / all;
    count = all;
  }
};

// Combines one channel of all lanes, in lane order.
template <class FindMoments>
Spread combine_lanes(const FindMoments& lane_moments, int lanes, std::int64_t k,
                     std::int64_t pixels) {
  Spread all;
  for (int lane = 0; lane < lanes; ++lane) {
    const LaneMoments& one = lane_moments(lane);
    if (one.samples == 0) continue;
    const double n = static_cast<double>(one.samples * pixels);
    const double d = one.moments[k].sum / n;
    all.add({n, static_cast<double>(one.shift[k]) + d, one.moments[k].square - n * d * d});
  }
  return all;
}

// Lets lane 0 exchange `count` numbers with the ranks by fill(numbers), then calls use(numbers) on
// all lanes. The time of lane 0 before that belongs to `phase`.
template <class Fill, class Use>
void over_ranks(const CallContext& c, PhaseClock::Phase phase, std::size_t count, const Fill& fill,
                const Use& use) {
  std::vector<double>& numbers = *c.numbers;
  if (c.lane == 0) {
    if (numbers.size() < count) numbers.resize(count);
    if (c.clock != nullptr) c.clock->lap(phase);
    fill(numbers);
    if (c.clock != nullptr) c.clock->lap(PhaseClock::Phase::kAllReduce);
  }
  c.barrier->wait(c.lanes);
  use(numbers);
}

// Combines the spreads of all ranks in rank order, so that all ranks get the same bits.
void gather_spreads(const CallContext& c, std::vector<double>& numbers, std::size_t count) {
  const std::size_t ranks = c.statistics->size();
  const std::span<double> rank_numbers(numbers.data(), count),
      all(numbers.data() + count, count * ranks);
  c.statistics->all_gather(std::as_bytes(rank_numbers), std::as_writable_bytes(all));
  for (std::size_t i = 0; i < count; i += 3) {
    Spread spread;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double* from = all.data() + rank * count + i;
      spread.add({from[0], from[1], from[2]});
    }
    rank_numbers[i] = spread.count;
    rank_numbers[i + 1] = spread.mean;
    rank_numbers[i + 2] = spread.square;
  }
}

// Called inside with_all_lanes().
template <class FindSums>
void take_sums(const CallContext& c, const FindSums& lane_sums, std::int64_t channels,
               const Take& take) {
  const auto sum_lanes = [&](std::int64_t k) {
    GradientSums sums{0, 0};
    for (int lane = 0; lane < c.lanes; ++lane) {
      if (lane_sums(lane).samples == 0) continue;
      sums.sum_g += lane_sums(lane).sums[k].sum_g;
      sums.sum_g_xhat += lane_sums(lane).sums[k].sum_g_xhat;
    }
    return sums;
  };
  if (c.statistics == nullptr) {
    for (std::int64_t k = 0; k < channels; ++k) take(k, sum_lanes(k));
    return;
  }
  const std::size_t count = 2 * channels;
  const auto fill = [&](std::vector<double>& numbers) {
    for (std::int64_t k = 0; k < channels; ++k) {
      const GradientSums sums = sum_lanes(k);
      double* to = numbers.data() + 2 * k;
      to[0] = sums.sum_g;
      to[1] = sums.sum_g_xhat;
    }
    c.statistics->all_reduce(std::span(numbers.data(), count));
  };
  over_ranks(c, PhaseClock::Phase::kBackward, count, fill, [&](const std::vector<double>& numbers) {
    for (std::int64_t k = 0; k < channels; ++k) {
      const double* from = numbers.data() + 2 * k;
      take(k, GradientSums{from[0], from[1]});
    }
  });
}

}  // namespace

void combine_moments(const CallContext& c, const LaneMoments& moments, const Channels& ch,
                     float* mean, float* inverse_std, float epsilon) {
  const auto take = [&](std::int64_t k, const Spread& spread) {
    const double variance = std::max(spread.square / spread.count, 0.0);
    mean[k] = static_cast<float>(spread.mean);
    inverse_std[k] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
  };
  with_all_lanes(c, moments, [&](const auto& lane_moments) {
    if (c.statistics == nullptr) {
      for (std::int64_t k = 0; k < ch.count; ++k) {
        take(k, combine_lanes(lane_moments, c.lanes, k, ch.shape.pixels));
      }
      return;
    }
    const std::size_t count = 3 * ch.count;
    const auto fill = [&](std::vector<double>& numbers) {
      for (std::int64_t k = 0; k < ch.count; ++k) {
        const Spread spread = combine_lanes(lane_moments, c.lanes, k, ch.shape.pixels);
        double* to = numbers.data() + 3 * k;
        to[0] = spread.count;
        to[1] = spread.mean;
        to[2] = spread.square;
      }
      gather_spreads(c, numbers, count);
    };
    over_ranks(c, PhaseClock::Phase::kForward,
               count * static_cast<std::size_t>(c.statistics->size() + 1), fill,
               [&](const std::vector<double>& numbers) {
                 for (std::int64_t k = 0; k < ch.count; ++k) {
                   const double* from = numbers.data() + 3 * k;
                   take(k, {from[0], from[1], from[2]});
                 }
               });
  });
}

void combine_sums(const CallContext& c, const LaneSums& sums, std::int64_t channels,
                  const Take& take) {
  with_all_lanes(c, sums, [&](const auto& lane_sums) { take_sums(c, lane_sums, channels, take); });
}

}  // namespace trainer::backend::cpu
