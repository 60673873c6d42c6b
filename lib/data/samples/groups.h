// Groups of samples that must stay in one split, such as the images of a patient, and their
// division into parts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/samples/strata.h"

namespace trainer::data {

struct Groups {
  std::vector<std::int64_t> by_sample;  // the number of the group of each sample, from 0
  std::int64_t count = 0;
  std::int64_t ungrouped = 0;  // samples without a name, each of which is a group of its own
};

// Numbers the groups in the order of their first samples. `names` has the group of each sample, ""
// for none; an empty list makes every sample a group.
Groups number_groups(std::span<const std::string> names, std::size_t samples);

// Removes all names if all are empty, so that samples without any group are divided as without the
// key data.group_by.
void clear_if_ungrouped(std::vector<std::string>& names);

// Returns Dataset::group_at() of all samples; an empty list if no sample has a group.
std::vector<std::string> list_groups(const Dataset& dataset);

// Returns the part of each sample, as a function of the arguments alone. All samples of a group are
// in one part. The parts have the given shares (which sum to 1) of the samples of every stratum as
// far as whole groups allow: no move of one group to another part brings the numbers of samples by
// stratum and part closer to them, in squares relative to the size of the stratum. So if all
// samples of each group are of one class, the number of a class in a part differs from its share by
// less than the size of the largest group. No part is empty. Throws DataError if there are fewer
// groups than parts.
std::vector<std::int32_t> divide_groups(const Strata& strata, const Groups& groups,
                                        std::span<const double> shares, std::uint64_t seed);

}  // namespace trainer::data
