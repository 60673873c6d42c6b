#include "backend/cpu/ops/batch_statistics.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace trainer::backend::cpu {
namespace {

using simd::GradientSums;
using Take = std::function<void(std::int64_t, const GradientSums&)>;

// Calls use(worker -> what it shows) when all have written theirs, and returns when all have read
// them. All workers show the same type.
template <class Shown, class Use>
void with_all_workers(const StepContext& c, const Shown& mine, const Use& use) {
  (*c.exchange)[static_cast<std::size_t>(c.worker)] = const_cast<Shown*>(&mine);
  c.barrier->wait(c.workers);
  use([&](int worker) -> const Shown& {
    return *static_cast<const Shown*>((*c.exchange)[static_cast<std::size_t>(worker)]);
  });
  c.barrier->wait(c.workers);
}

// Count, mean and sum of squared distances from the mean; Chan et al.'s pairwise update.
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

// One channel over all workers, in worker order.
template <class WorkerMomentsOf>
Spread over_workers(const WorkerMomentsOf& worker_moments, int workers, std::int64_t k,
                    std::int64_t pixels) {
  Spread all;
  for (int worker = 0; worker < workers; ++worker) {
    const WorkerMoments& own = worker_moments(worker);
    if (own.samples == 0) continue;
    const double n = static_cast<double>(own.samples * pixels);
    const double d = own.moments[k].sum / n;
    all.add({n, static_cast<double>(own.shift[k]) + d, own.moments[k].square - n * d * d});
  }
  return all;
}

// Calls use(numbers) with what fill(numbers) wrote, `count` of them, summed over the ranks; fill
// runs on worker 0, whose time before it was of `phase`.
template <class Fill, class Use>
void over_ranks(const StepContext& c, PhaseClock::Phase phase, std::size_t count, const Fill& fill,
                const Use& use) {
  std::vector<double>& numbers = *c.numbers;
  if (c.worker == 0) {
    if (numbers.size() < count) numbers.resize(count);
    if (c.clock != nullptr) c.clock->lap(phase);
    fill(numbers);
    if (c.clock != nullptr) c.clock->lap(PhaseClock::Phase::kAllReduce);
  }
  c.barrier->wait(c.workers);
  use(numbers);
}

// The spreads of all ranks, in rank order, so that all get the same bits.
void gather_spreads(const StepContext& c, std::vector<double>& numbers, std::size_t own) {
  const auto ranks = static_cast<std::size_t>(c.statistics->size());
  const std::span<double> mine(numbers.data(), own), all(numbers.data() + own, own * ranks);
  c.statistics->all_gather(std::as_bytes(mine), std::as_writable_bytes(all));
  for (std::size_t i = 0; i < own; i += 3) {
    Spread spread;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double* from = all.data() + rank * own + i;
      spread.add({from[0], from[1], from[2]});
    }
    mine[i] = spread.count;
    mine[i + 1] = spread.mean;
    mine[i + 2] = spread.square;
  }
}

// Inside of with_all_workers().
template <class WorkerSumsOf>
void take_sums(const StepContext& c, const WorkerSumsOf& worker_sums, std::int64_t channels,
               const Take& take) {
  const auto sums_of = [&](std::int64_t k) {
    GradientSums sums{0, 0};
    for (int worker = 0; worker < c.workers; ++worker) {
      if (worker_sums(worker).samples == 0) continue;
      sums.sum_g += worker_sums(worker).sums[k].sum_g;
      sums.sum_g_xhat += worker_sums(worker).sums[k].sum_g_xhat;
    }
    return sums;
  };
  if (c.statistics == nullptr) {
    for (std::int64_t k = 0; k < channels; ++k) take(k, sums_of(k));
    return;
  }
  const auto fill = [&](std::vector<double>& numbers) {
    for (std::int64_t k = 0; k < channels; ++k) {
      const GradientSums sums = sums_of(k);
      numbers[static_cast<std::size_t>(2 * k)] = sums.sum_g;
      numbers[static_cast<std::size_t>(2 * k + 1)] = sums.sum_g_xhat;
    }
    c.statistics->all_reduce(std::span(numbers.data(), static_cast<std::size_t>(2 * channels)));
  };
  over_ranks(c, PhaseClock::Phase::kBackward, static_cast<std::size_t>(2 * channels), fill,
             [&](const std::vector<double>& numbers) {
               for (std::int64_t k = 0; k < channels; ++k) {
                 const double* from = numbers.data() + 2 * k;
                 take(k, GradientSums{from[0], from[1]});
               }
             });
}

}  // namespace

void combine_moments(const StepContext& c, const WorkerMoments& mine, const Channels& ch,
                     float* mean, float* inverse_std, float epsilon) {
  const auto take = [&](std::int64_t k, const Spread& spread) {
    const double variance = std::max(spread.square / spread.count, 0.0);
    mean[k] = static_cast<float>(spread.mean);
    inverse_std[k] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
  };
  with_all_workers(c, mine, [&](const auto& worker_moments) {
    if (c.statistics == nullptr) {
      for (std::int64_t k = 0; k < ch.count; ++k) {
        take(k, over_workers(worker_moments, c.workers, k, ch.shape.pixels));
      }
      return;
    }
    const auto own = static_cast<std::size_t>(3 * ch.count);
    const auto fill = [&](std::vector<double>& numbers) {
      for (std::int64_t k = 0; k < ch.count; ++k) {
        const Spread spread = over_workers(worker_moments, c.workers, k, ch.shape.pixels);
        double* to = numbers.data() + 3 * k;
        to[0] = spread.count;
        to[1] = spread.mean;
        to[2] = spread.square;
      }
      gather_spreads(c, numbers, own);
    };
    over_ranks(c, PhaseClock::Phase::kForward,
               own * static_cast<std::size_t>(c.statistics->size() + 1), fill,
               [&](const std::vector<double>& numbers) {
                 for (std::int64_t k = 0; k < ch.count; ++k) {
                   const double* from = numbers.data() + 3 * k;
                   take(k, {from[0], from[1], from[2]});
                 }
               });
  });
}

void combine_sums(const StepContext& c, const WorkerSums& mine, std::int64_t channels,
                  const Take& take) {
  with_all_workers(c, mine,
                   [&](const auto& worker_sums) { take_sums(c, worker_sums, channels, take); });
}

}  // namespace trainer::backend::cpu
