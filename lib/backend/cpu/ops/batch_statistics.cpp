#include "backend/cpu/ops/batch_statistics.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace trainer::backend::cpu {
namespace {

using simd::GradientSums;

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

// Calls take(channel, sum) on all lanes, where the sum is that of add_lanes(find, channel), with
// find() as of with_all_lanes(). If there are several ranks, lane 0 combines the sums of all
// channels with theirs by exchange(sums, room), where `room` has the sums of every rank. The time
// of lane 0 before that belongs to `phase`. A Sum consists of doubles.
template <class Sum, class Shown, class AddLanes, class Exchange, class Take>
void combine(const CallContext& c, const Shown& shown, std::int64_t channels,
             PhaseClock::Phase phase, const AddLanes& add_lanes, const Exchange& exchange,
             const Take& take) {
  with_all_lanes(c, shown, [&](const auto& find) {
    if (c.statistics == nullptr) {
      for (std::int64_t k = 0; k < channels; ++k) take(k, add_lanes(find, k));
      return;
    }
    const std::size_t count = channels, ranks = c.statistics->size();
    if (c.lane == 0) {
      const std::size_t needed = count * (ranks + 1) * (sizeof(Sum) / sizeof(double));
      if (c.numbers->size() < needed) c.numbers->resize(needed);
      if (c.clock != nullptr) c.clock->lap(phase);
      auto* sums = reinterpret_cast<Sum*>(c.numbers->data());
      for (std::int64_t k = 0; k < channels; ++k) sums[k] = add_lanes(find, k);
      exchange(std::span(sums, count), std::span(sums + count, count * ranks));
      if (c.clock != nullptr) c.clock->lap(PhaseClock::Phase::kAllReduce);
    }
    c.barrier->wait(c.lanes);
    const auto* sums = reinterpret_cast<const Sum*>(c.numbers->data());
    for (std::int64_t k = 0; k < channels; ++k) take(k, sums[k]);
  });
}

}  // namespace

void combine_moments(const CallContext& c, const LaneMoments& moments, const Channels& ch,
                     float* mean, float* inverse_std, float epsilon) {
  const auto add_lanes = [&](const auto& find, std::int64_t k) {
    Spread all;
    for (int lane = 0; lane < c.lanes; ++lane) {
      const LaneMoments& one = find(lane);
      if (one.samples == 0) continue;
      const double n = static_cast<double>(one.samples * ch.shape.pixels);
      const double d = one.moments[k].sum / n;
      all.add({n, static_cast<double>(one.shift[k]) + d, one.moments[k].square - n * d * d});
    }
    return all;
  };
  // Combines the spreads in rank order, so that all ranks get the same bits.
  const auto exchange = [&](std::span<Spread> sums, std::span<Spread> room) {
    c.statistics->all_gather(std::as_bytes(sums), std::as_writable_bytes(room));
    for (std::size_t k = 0; k < sums.size(); ++k) {
      sums[k] = {};
      for (std::size_t i = k; i < room.size(); i += sums.size()) sums[k].add(room[i]);
    }
  };
  combine<Spread>(c, moments, ch.count, PhaseClock::Phase::kForward, add_lanes, exchange,
                  [&](std::int64_t k, const Spread& spread) {
                    const double variance = std::max(spread.square / spread.count, 0.0);
                    mean[k] = static_cast<float>(spread.mean);
                    inverse_std[k] = static_cast<float>(
                        1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
                  });
}

void combine_sums(const CallContext& c, const LaneSums& sums, std::int64_t channels,
                  const std::function<void(std::int64_t, const GradientSums&)>& take) {
  const auto add_lanes = [&](const auto& find, std::int64_t k) {
    GradientSums all{0, 0};
    for (int lane = 0; lane < c.lanes; ++lane) {
      const LaneSums& one = find(lane);
      if (one.samples == 0) continue;
      all.sum_g += one.sums[k].sum_g;
      all.sum_g_xhat += one.sums[k].sum_g_xhat;
    }
    return all;
  };
  const auto exchange = [&](std::span<GradientSums> all, std::span<GradientSums>) {
    c.statistics->all_reduce(std::span(&all.data()->sum_g, 2 * all.size()));
  };
  combine<GradientSums>(c, sums, channels, PhaseClock::Phase::kBackward, add_lanes, exchange, take);
}

}  // namespace trainer::backend::cpu
