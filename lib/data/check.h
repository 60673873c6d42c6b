// Checks the files of a data set before training: `trainer data`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/split.h"
#include "config/sections/data.h"
#include "data/dataset.h"
#include "data/relabel_counts.h"

namespace trainer::data {

struct SplitCheck {
  Split split = Split::kTrain;
  std::int64_t files = 0;
  std::vector<std::int64_t> per_class;        // the number of files of each class or label
  std::map<std::string, std::int64_t> kinds;  // files by "JPEG", "PNG", ...
  std::vector<std::map<std::string, std::int64_t>> class_kinds;  // `kinds` by class
  int min_height = 0, max_height = 0, min_width = 0, max_width = 0;
  std::int64_t grey = 0, turned = 0;    // grey files; files with an EXIF orientation
  std::vector<std::string> damaged;     // messages, each with its file and class
  std::vector<std::string> suspicious;  // warnings of decoders, each with its file
  std::vector<std::string> notes;
  std::string missing;  // a sentence why the files of a csv are not found; "" if some are
};
struct DataCheck {
  std::vector<std::string> classes;
  std::string class_order;  // see Datasets
  std::vector<SplitCheck> splits;
  // Photos that a split has in several classes, after data.on_conflict.
  std::int64_t conflicts = 0;
  std::optional<RelabelCounts> relabel;    // the changes by the file data.relabel, if one is given
  std::vector<std::string> duplicates;     // equal files in two splits, or with two labels
  std::vector<std::string> shared_groups;  // groups that several splits have
  std::string group_source;                // "data.group_by", "--group-by", or "" without groups
  std::int64_t grouped_files = 0, groups = 0;  // files in groups, and their groups
  std::int64_t ungrouped_files = 0;            // files each of which is a group of its own
  // A line on the groups that the names of files show, with a pattern for data.group_by; "" for
  // none, and if groups are given.
  std::string group_proposal;
  // How to keep groups together despite data.validation_split or data.fold; "" if neither groups
  // nor equal files are divided.
  std::string advice;
  // Returns whether no file is damaged, no file is in two splits, and no group is in two splits.
  bool clean() const;
};

// Reads and decodes every file of every split on all cores. The splits are those of training with
// this seed, with data.limit and data.validation_split or data.fold applied. `group_by` is a
// regular expression as in data.group_by, "" for that of the config: the files of a group must not
// be in two splits. It does not change the splits. Throws ConfigError if it matches no file.
DataCheck check_images(const config::Data& data, std::uint64_t seed, const std::string& group_by);

// Lists the training files without reading them, and returns the number of their groups by
// data.group_by: "2,073 files in 1,209 groups". Throws ConfigError if no file has a group.
std::string describe_training_groups(const config::Data& data);

}  // namespace trainer::data
