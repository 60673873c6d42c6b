#include <algorithm>
#include <chrono>
#include <iomanip>
#include <limits>
#include <sstream>

#include "base/statistics.h"
#include "cluster/collective/gloo_communicator.h"

namespace trainer::cluster {
namespace {

constexpr int kRounds = 7;  // the median of them

// Returns the time of the slowest rank, so that all ranks have the same number.
double time_all_reduce(Communicator& group, std::span<float> values) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  group.all_reduce(values);  // connections and memory warm up
  for (int round = 0; round < kRounds; ++round) {
    group.barrier();
    const auto start = Clock::now();
    group.all_reduce(values);
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double mine = median(times);
  std::vector<double> all(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return *std::max_element(all.begin(), all.end());
}

}  // namespace

Algorithm by_rule(int size) {
  const std::vector<Algorithm> all = candidates(size);
  return all.back() == Algorithm::kHalvingDoubling ? all.back() : Algorithm::kRing;
}

std::vector<Measurement> measure(const std::shared_ptr<Rendezvous>& rendezvous,
                                 std::vector<std::size_t> sizes, bool reproducible) {
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<Measurement> result;
  for (const std::size_t bytes : sizes) result.push_back({bytes, {}, Algorithm::kRing});
  const std::vector<Algorithm> all = candidates(rendezvous->size());
  for (const Algorithm algorithm : all) {
    const auto group =
        open_gloo(rendezvous, {{std::numeric_limits<std::size_t>::max(), algorithm}});
    for (Measurement& row : result) {
      std::vector<float> values(std::max<std::size_t>(row.bytes / sizeof(float), 1));
      row.seconds.push_back(time_all_reduce(*group, values));
    }
  }
  for (Measurement& row : result) {
    const auto fastest = std::min_element(row.seconds.begin(), row.seconds.end());
    row.choice = all[static_cast<std::size_t>(fastest - row.seconds.begin())];
    if (reproducible && rendezvous->size() > 2) row.choice = by_rule(rendezvous->size());
  }
  return result;
}

AlgorithmTable make_algorithm_table(const std::vector<Measurement>& measurements) {
  AlgorithmTable table;
  for (const Measurement& row : measurements) table.push_back({row.bytes, row.choice});
  return table;
}

std::string to_text(const std::vector<Measurement>& measurements, int size) {
  const std::vector<Algorithm> all = candidates(size);
  std::ostringstream out;
  out << std::fixed << "all_reduce of KiB";
  for (const Algorithm algorithm : all) out << std::setw(20) << to_string(algorithm);
  out << '\n';
  for (const Measurement& row : measurements) {
    out << std::setw(17) << std::setprecision(1) << static_cast<double>(row.bytes) / 1024;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::ostringstream cell;
      cell << std::fixed << std::setprecision(3) << row.seconds[i] * 1e3 << " ms"
           << (all[i] == row.choice ? " *" : "  ");
      out << std::setw(20) << cell.str();
    }
    out << '\n';
  }
  return out.str();
}

}  // namespace trainer::cluster
