#include "data/images/listing/group_pattern.h"

#include <re2/re2.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace trainer::data {
namespace {

re2::RE2::Options make_pattern_options() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);  // a path is bytes
  return options;
}

}  // namespace

GroupPattern::GroupPattern(const std::string& source, const std::string& pattern)
    : pattern_(std::make_unique<re2::RE2>(pattern, make_pattern_options())) {
  if (pattern_->ok()) return;
  throw ConfigError({}, source, " '", printable(pattern), "': ", pattern_->error(),
                    "; it takes the syntax of RE2 (https://github.com/google/re2/wiki/Syntax), "
                    "which has no back-references and no look-around");
}

GroupPattern::~GroupPattern() = default;

std::string GroupPattern::find(const std::string& path) const {
  re2::StringPiece match[2];
  if (!pattern_->Match(path, 0, path.size(), re2::RE2::UNANCHORED, match, 2)) return "";
  return (pattern_->NumberOfCapturingGroups() > 0 ? match[1] : match[0]).as_string();
}

void assign_groups(const config::Data& data, ImageList& list) {
  if (data.group_by.empty() || list.has_groups) return;
  if (!list.missing_groups.empty()) {
    list.note_left_aside(
        concat(list.missing_groups, "; groups that are also in another split cannot be found"));
    return;
  }
  const GroupPattern pattern("data.group_by", data.group_by);
  for (ListedFile& file : list.files) file.group = pattern.find(file.describe());
}

void check_groups(const config::Data& data, const ImageList& train) {
  if (!train.missing_groups.empty()) {
    throw ConfigError(data.loc, train.missing_groups,
                      ". A regular expression on paths needs parentheses, e.g. '(person\\d+)'");
  }
  if (data.group_by.empty() || train.files.empty()) return;
  const ListedFile& first = train.files.front();
  const bool is_one_group = std::ranges::all_of(
      train.files, [&](const ListedFile& file) { return file.group == first.group; });
  if (!is_one_group) return;
  const std::string source = concat("data.group_by: '", printable(data.group_by), "' ");
  if (!first.group.empty()) {
    throw ConfigError(data.loc, source, "puts all ", train.files.size(),
                      " training files into the group '", printable(first.group),
                      "'; give a pattern whose first parentheses enclose what differs between "
                      "groups, such as 'person(\\d+)'");
  }
  throw ConfigError(
      data.loc,
      train.has_groups
          ? concat(source, "is a column of ", train.source, " that is empty in every line")
          : concat(source, "matches none of the paths of the ", train.files.size(),
                   " training files, e.g. ", printable(first.describe())));
}

}  // namespace trainer::data
