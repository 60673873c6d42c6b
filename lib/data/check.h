// Checks a data set before training: `trainer data`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/split.h"
#include "config/config.h"

namespace trainer::data {

struct SplitCheck {
  Split split = Split::kTrain;
  std::vector<std::int64_t> per_class;                           // number of files
  std::map<std::string, std::int64_t> kinds;                     // files by "JPEG", "PNG", ...
  std::vector<std::map<std::string, std::int64_t>> class_kinds;  // `kinds` of each class
  int min_height = 0, max_height = 0, min_width = 0, max_width = 0;
  std::int64_t grey = 0, turned = 0;    // grey files, files with an EXIF orientation
  std::vector<std::string> damaged;     // messages, each with its file and class
  std::vector<std::string> suspicious;  // decoded, but the decoder complained
  std::vector<std::string> notes;
};
struct DataCheck {
  std::vector<std::string> classes;
  std::vector<SplitCheck> splits;
  std::vector<std::string> duplicates;         // equal files in two splits, or with two labels
  std::vector<std::string> shared_groups;      // values of the regex that several splits have
  bool grouped = false;                        // whether there was a regex
  std::int64_t grouped_files = 0, groups = 0;  // files that it matched, and distinct values
  std::string advice;  // how to keep groups together in data.validation_split; "" for none
  bool clean() const;
};

// Reads and decodes every file of every split with all cores. The splits are those that training
// with this seed would take, data.limit and data.validation_split included. `group_by` is a regular
// expression on the path: its first group (or the whole match) must not occur in two splits, e.g.
// patients. Throws ConfigError when it matches no file.
DataCheck check_images(const config::Data& data, std::uint64_t seed, const std::string& group_by);
std::string to_text(const DataCheck& check);
// One object a line: {"event":"split",...} for each split, {"event":"data",...} at the end.
std::string to_json(const DataCheck& check);

}  // namespace trainer::data
