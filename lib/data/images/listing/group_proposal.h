// Groups of files that the file names show, such as the patients of person123_bacteria_4.jpeg.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::data {

struct GroupProposal {
  std::string pattern;  // a value for data.group_by; "" if the names show no groups
  std::int64_t files = 0, groups = 0;
  std::string example;  // a group with several files
  std::int64_t example_files = 0;
};

// Looks for numbers in file names behind which others follow, as in person123_bacteria_4.jpeg and
// IM-0115-0001.jpeg, so that several files have the beginning up to the number in common. A
// beginning with fewer than three different numbers, or with more than 50 files per number, does
// not name a group.
GroupProposal propose_groups(const std::vector<std::string>& paths);

// Returns a line with the pattern of propose_groups(); "" if the names show no groups.
std::string describe_proposal(const std::vector<std::string>& paths);

}  // namespace trainer::data
