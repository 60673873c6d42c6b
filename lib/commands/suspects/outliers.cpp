#include "commands/suspects/outliers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/threads/parallel.h"

namespace trainer::commands {
namespace {

// Sums in 16 parts, which are computed at once.
float multiply_rows(const float* a, const float* b, std::size_t width) {
  constexpr std::size_t kParts = 16;
  std::array<float, kParts> parts{};
  std::size_t i = 0;
  for (; i + kParts <= width; i += kParts) {
    for (std::size_t part = 0; part < kParts; ++part) parts[part] += a[i + part] * b[i + part];
  }
  float sum = 0;
  for (; i < width; ++i) sum += a[i] * b[i];
  for (const float part : parts) sum += part;
  return sum;
}

// Divides each row by its length; rows of zeros remain.
std::vector<float> normalise_rows(std::span<const float> features, std::size_t width) {
  std::vector<float> rows(features.begin(), features.end());
  for (std::size_t at = 0; at < rows.size(); at += width) {
    double square = 0;
    for (std::size_t i = 0; i < width; ++i) {
      square += static_cast<double>(rows[at + i]) * static_cast<double>(rows[at + i]);
    }
    if (!(square > 0)) continue;
    const double length = std::sqrt(square);
    for (std::size_t i = 0; i < width; ++i) {
      rows[at + i] = static_cast<float>(static_cast<double>(rows[at + i]) / length);
    }
  }
  return rows;
}

// Returns the value below which a share of sorted values lies, between two values by their
// distance.
double find_quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

std::vector<double> find_neighbour_distances(std::span<const float> features, std::size_t width) {
  const std::vector<float> rows = normalise_rows(features, width);
  const std::size_t count = rows.size() / width;
  std::vector<double> means(count);
  parallel_for(count, [&](std::size_t i) {
    std::vector<float> distances;
    distances.reserve(count);
    for (std::size_t j = 0; j < count; ++j) {
      if (j == i) continue;
      const float product = multiply_rows(&rows[i * width], &rows[j * width], width);
      distances.push_back(std::max(0.0f, 1 - product));
    }
    const std::size_t nearest = std::min(kOutlierNeighbours, distances.size());
    if (nearest == 0) return;
    const auto end = distances.begin() + nearest;
    std::partial_sort(distances.begin(), end, distances.end());
    double sum = 0;
    for (std::size_t n = 0; n < nearest; ++n) sum += static_cast<double>(distances[n]);
    means[i] = sum / static_cast<double>(nearest);
  });
  return means;
}

double find_outlier_limit(std::vector<double> distances) {
  constexpr double kRanges = 1 / 0.37037 - 1;  // cleanlab's threshold is 0.37037
  std::ranges::sort(distances);
  const double low = find_quantile(distances, 0.25), high = find_quantile(distances, 0.75);
  return high + kRanges * (high - low);
}

}  // namespace trainer::commands
