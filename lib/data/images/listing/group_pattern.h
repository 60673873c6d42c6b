// The groups of image files, such as the patients whose images they are.
#pragma once

#include <memory>
#include <string>

#include "config/sections/data.h"
#include "data/images/listing/image_list.h"

namespace re2 {
class RE2;
}

namespace trainer::data {

// A regular expression on paths whose match names the group of a file. For any pattern, a match
// needs time and memory linear in the path.
class GroupPattern {
 public:
  // `source` is the key or option that gives the pattern, for messages. Throws ConfigError for a
  // wrong pattern.
  GroupPattern(const std::string& source, const std::string& pattern);
  ~GroupPattern();
  GroupPattern(const GroupPattern&) = delete;
  GroupPattern& operator=(const GroupPattern&) = delete;

  // Returns what the first parentheses match in the first match of the pattern, or the whole match
  // of a pattern without parentheses; "" if the path does not match.
  std::string find(const std::string& path) const;

 private:
  std::unique_ptr<re2::RE2> pattern_;
};

// Sets the group of each file by the pattern data.group_by, unless a column of the list gave it. If
// the key names a column that a csv does not have, its files have no group, and a note is added.
// Does nothing without the key. Throws ConfigError for a wrong pattern.
void assign_groups(const config::Data& data, ImageList& list);

// Checks the groups of the training files: throws ConfigError if data.group_by is given and a csv
// does not have the column, no file has a group, or all files have the same one.
void check_groups(const config::Data& data, const ImageList& train);

}  // namespace trainer::data
