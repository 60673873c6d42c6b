#include <algorithm>
#include <chrono>
#include <iomanip>
#include <limits>
#include <sstream>

#include "base/numbers/statistics.h"
#include "cluster/collective/gloo_communicator.h"
#include "cluster/network.h"

namespace trainer::cluster {
namespace {

constexpr int kRounds = 7;  // the median of them
// Ranks whose barrier takes longer are far apart: more rounds would cost seconds.
constexpr double kFarSeconds = 0.02;

class Timer {
 public:
  explicit Timer(const Network& network) : network_(network), start_(network.now()) {}
  double seconds() const { return std::chrono::duration<double>(network_.now() - start_).count(); }

 private:
  const Network& network_;
  const Clock::time_point start_;
};

// Replaces each number by the largest of all ranks.
void take_largest(Communicator& group, std::vector<double>& numbers) {
  std::vector<double> all(numbers.size() * group.size());
  group.all_gather(std::as_bytes(std::span<const double>(numbers)),
                   std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    double& number = numbers[i % numbers.size()];
    number = std::max(number, all[i]);
  }
}

// Returns the number of rounds, the same on all ranks.
int count_rounds(Communicator& group, const Network& network) {
  group.barrier();  // so that all ranks start their timers together
  const Timer timer(network);
  group.barrier();
  std::vector<double> seconds{timer.seconds()};
  take_largest(group, seconds);
  return seconds[0] > kFarSeconds ? 1 : kRounds;
}

double time_all_reduce(Communicator& group, std::span<float> values, int rounds,
                       const Network& network) {
  std::vector<double> times;
  if (rounds > 1) group.all_reduce(values);  // warms up the memory
  for (int round = 0; round < rounds; ++round) {
    if (rounds > 1) group.barrier();
    const Timer timer(network);
    group.all_reduce(values);
    times.push_back(timer.seconds());
  }
  return median(times);
}

}  // namespace

Algorithm by_rule(int size) {
  const std::vector<Algorithm> all = candidates(size);
  return all.back() == Algorithm::kHalvingDoubling ? all.back() : Algorithm::kRing;
}

std::vector<Measurement> measure(Communicator& group, AlgorithmTable& table,
                                 std::vector<std::size_t> sizes, const Network& network) {
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const std::vector<Algorithm> all = candidates(group.size());
  const int rounds = count_rounds(group, network);
  // Between ranks that are far apart, the latency decides for few bytes as it does for many.
  if (rounds == 1) sizes = {sizes.back()};
  std::vector<double> seconds;  // by algorithm, then by size
  for (const Algorithm algorithm : all) {
    table = {{std::numeric_limits<std::size_t>::max(), algorithm}};
    for (const std::size_t bytes : sizes) {
      std::vector<float> values(std::max<std::size_t>(bytes / sizeof(float), 1));
      seconds.push_back(time_all_reduce(group, values, rounds, network));
    }
  }
  take_largest(group, seconds);
  std::vector<Measurement> result;
  for (std::size_t row = 0; row < sizes.size(); ++row) {
    Measurement measurement{sizes[row], {}, Algorithm::kRing};
    for (std::size_t i = 0; i < all.size(); ++i) {
      measurement.seconds.push_back(seconds[i * sizes.size() + row]);
    }
    const auto fastest = std::ranges::min_element(measurement.seconds);
    measurement.choice = all[fastest - measurement.seconds.begin()];
    result.push_back(std::move(measurement));
  }
  table = make_algorithm_table(result);
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
  for (const Algorithm algorithm : all) out << std::setw(20) << spell(algorithm);
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
