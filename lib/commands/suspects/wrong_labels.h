// Likely wrong labels by confident learning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainer::commands {

struct WrongLabel {
  std::size_t sample = 0;
  std::int32_t suggested = 0;  // the class that the sample confidently belongs to
  // The largest probability of another class minus that of the label, between 0 and 1: the negative
  // normalized margin.
  double margin = 0;
};

// Returns the samples whose label is likely wrong, the largest margin first. `probabilities` has a
// row of `classes` per label, by a model that was not trained on the sample.
//
// C. Northcutt, L. Jiang, I. Chuang: Confident Learning: Estimating Uncertainty in Dataset Labels,
// Journal of Artificial Intelligence Research 70 (2021), as in cleanlab 2.9
// (filter_by="confident_learning", return_indices_ranked_by="normalized_margin"): the threshold of
// class j is the mean probability of j over the samples labelled j, and a sample is confidently of
// class j if its probability of j reaches this threshold; of several such classes it is of the
// likeliest of all classes. A sample is suspect if this class is not its label, and neither is the
// likeliest class.
std::vector<WrongLabel> find_wrong_labels(std::span<const std::int32_t> labels,
                                          std::span<const double> probabilities,
                                          std::size_t classes);

}  // namespace trainer::commands
