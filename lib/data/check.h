// Checks the files of a data set before training: `trainer data`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/split.h"
#include "config/sections/data.h"
#include "data/dataset.h"

namespace trainer::data {

struct SplitCheck {
  Split split = Split::kTrain;
  std::vector<std::int64_t> per_class;                           // number of files by class
  std::map<std::string, std::int64_t> kinds;                     // files by "JPEG", "PNG", ...
  std::vector<std::map<std::string, std::int64_t>> class_kinds;  // `kinds` by class
  int min_height = 0, max_height = 0, min_width = 0, max_width = 0;
  std::int64_t grey = 0, turned = 0;    // grey files; files with an EXIF orientation
  std::vector<std::string> damaged;     // messages, each with its file and class
  std::vector<std::string> suspicious;  // warnings of decoders, each with its file
  std::vector<std::string> notes;
  std::string missing;  // why the files of a csv are not found, in a sentence; "" if some are
};
struct DataCheck {
  std::vector<std::string> classes;
  std::string class_order;  // see Datasets
  std::vector<SplitCheck> splits;
  // Photos that a split has in several classes, after data.on_conflict.
  std::int64_t conflicts = 0;
  std::vector<std::string> duplicates;         // equal files in two splits, or with two labels
  std::vector<std::string> shared_groups;      // groups that several splits have
  bool grouped = false;                        // a regular expression was given
  std::int64_t grouped_files = 0, groups = 0;  // files that it matches, and their groups
  // How to keep groups together despite data.validation_split; "" if no group is divided.
  std::string advice;
  // Returns whether no file is damaged, no file is in two splits, and no group is in two splits.
  bool clean() const;
};

// Reads and decodes every file of every split on all cores. The splits are those of training with
// this seed, with data.limit and data.validation_split applied. `group_by` is a regular expression
// on paths, "" for none: the value of its first parentheses, or of the whole match, names the group
// of a file, such as a patient, whose files must not be in two splits. Throws ConfigError if it
// matches no file.
DataCheck check_images(const config::Data& data, std::uint64_t seed, const std::string& group_by);

}  // namespace trainer::data
