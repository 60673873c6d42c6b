#include "inference/predict/nearest_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

// Divides the row by its length; a row of zeros remains.
void normalise_row(std::span<float> row) {
  double square = 0;
  for (const float x : row) square += static_cast<double>(x) * static_cast<double>(x);
  if (!(square > 0)) return;
  const double length = std::sqrt(square);
  for (float& x : row) x = static_cast<float>(static_cast<double>(x) / length);
}

}  // namespace

NearestRows::NearestRows(std::vector<float> rows, std::size_t width)
    : rows_(std::move(rows)), width_(width) {
  for (std::size_t at = 0; at < rows_.size(); at += width) {
    normalise_row(std::span(rows_).subspan(at, width));
  }
}

NearestRows::Found NearestRows::find(std::span<const float> features) const {
  std::vector<float> row(features.begin(), features.end());
  normalise_row(row);
  std::vector<std::pair<float, std::size_t>> distances(rows_.size() / width_);
  for (std::size_t i = 0; i < distances.size(); ++i) {
    const float product = multiply_rows(row.data(), &rows_[i * width_], width_);
    distances[i] = {std::max(0.0f, 1 - product), i};
  }
  const std::size_t nearest = std::min(kNearestRows, distances.size());
  const auto end = distances.begin() + static_cast<std::ptrdiff_t>(nearest);
  std::partial_sort(distances.begin(), end, distances.end());
  Found found;
  for (auto at = distances.begin(); at != end; ++at) {
    const auto [distance, index] = *at;
    found.distance += static_cast<double>(distance) / static_cast<double>(nearest);
    found.nearest.push_back({index, static_cast<double>(distance)});
  }
  return found;
}

}  // namespace trainer::inference
