// How far samples are from the others by their features.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace trainer::inference {

inline constexpr std::size_t kNearestNeighbours = 10;

// Returns for each row of `width` features the mean cosine distance to its 10 nearest other rows,
// or to all others if there are fewer. The distance of a row of zeros to others is 1. Compares all
// pairs.
//
// J. Kuan, J. Mueller: Back to the Basics: Revisiting Out-of-Distribution Detection Baselines (ICML
// 2022 workshop on distribution shifts), as in cleanlab 2.9 (OutOfDistribution).
std::vector<double> find_neighbour_distances(std::span<const float> features, std::size_t width);

}  // namespace trainer::inference
