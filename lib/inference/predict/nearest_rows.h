// The nearest of many rows of features.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trainer::inference {

inline constexpr std::size_t kNearestRows = 10;

// Rows of `width` features, and how far others are from them. Several threads may call const
// functions at once.
class NearestRows {
 public:
  // Divides each row by its length; rows of zeros remain. `rows` is not empty.
  NearestRows(std::vector<float> rows, std::size_t width);

  struct Row {
    std::size_t index = 0;
    double distance = 0;
  };
  struct Found {
    // The mean cosine distance to the 10 nearest rows, or to all if there are fewer. The distance
    // of a row of zeros to others is 1.
    double distance = 0;
    std::vector<Row> nearest;  // these rows, the nearest first
  };
  // J. Kuan, J. Mueller: Back to the Basics: Revisiting Out-of-Distribution Detection Baselines
  // (ICML 2022 workshop on distribution shifts), as in cleanlab 2.9 (OutOfDistribution).
  Found find(std::span<const float> features) const;

  std::size_t width() const { return width_; }

 private:
  std::vector<float> rows_;
  std::size_t width_;
};

}  // namespace trainer::inference
