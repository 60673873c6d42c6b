#include "inference/predict/neighbour_distances.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/threads/parallel.h"

namespace trainer::inference {
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
    const std::size_t nearest = std::min(kNearestNeighbours, distances.size());
    if (nearest == 0) return;
    const auto end = distances.begin() + nearest;
    std::partial_sort(distances.begin(), end, distances.end());
    double sum = 0;
    for (std::size_t n = 0; n < nearest; ++n) sum += static_cast<double>(distances[n]);
    means[i] = sum / static_cast<double>(nearest);
  });
  return means;
}

}  // namespace trainer::inference
