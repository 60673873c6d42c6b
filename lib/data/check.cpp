#include "data/check.h"

#include <re2/re2.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/text.h"
#include "base/threads/parallel.h"
#include "data/decode/image_file.h"
#include "data/image_split.h"
#include "data/images/conflicts.h"
#include "data/images/listing/image_list.h"
#include "data/images/listing/missing_files.h"
#include "data/images/scaled_decode.h"
#include "data/images/value_range.h"
#include "data/samples/splits.h"

namespace trainer::data {
namespace {

using Json = nlohmann::ordered_json;

struct FileCheck {
  ImageInfo info;
  std::string hash, error, warning;
};

FileCheck check_file(const ListedFile& listed, const config::Data& data) {
  const std::string path = listed.describe();
  thread_local std::vector<std::uint8_t> bytes;
  thread_local Pixels pixels;
  const ImageLimits limits{data.max_pixels, data.max_file_size};
  FileCheck result;
  try {
    read_image_file(listed.stored(), limits, bytes);
    Sha256 hash;
    hash.update(bytes);
    result.hash = hash.hex();
    ImageFile file(bytes, path, limits);
    result.info = file.info();
    result.warning = file.decode(static_cast<int>(data.channels.value_or(3)), 1, pixels);
  } catch (const DataError& error) {
    result.error = error.what();
  }
  return result;
}

std::vector<FileCheck> check_files(const ImageList& list, const config::Data& data) {
  std::vector<FileCheck> results(list.files.size());
  parallel_for(results.size(),
               [&](std::size_t i) { results[i] = check_file(list.files[i], data); });
  return results;
}

void widen(int value, bool first, int& low, int& high) {
  low = first ? value : std::min(low, value);
  high = first ? value : std::max(high, value);
}

SplitCheck summarise(Split which, const ImageList& list, const std::vector<FileCheck>& files,
                     const std::vector<std::string>& classes) {
  SplitCheck split;
  split.split = which;
  split.notes = list.notes;
  split.per_class.resize(classes.size());
  split.class_kinds.resize(classes.size());
  bool first = true;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FileCheck& file = files[i];
    const auto label = static_cast<std::size_t>(list.files[i].label);
    ++split.per_class[label];
    if (!file.error.empty()) {
      split.damaged.push_back(concat(file.error, " (class ", classes[label], ")"));
      continue;
    }
    if (!file.warning.empty()) {
      split.suspicious.push_back(concat(list.files[i].describe(), ": ", file.warning));
    }
    ++split.kinds[to_string(file.info.kind)];
    ++split.class_kinds[label][to_string(file.info.kind)];
    split.grey += file.info.channels == 1 ? 1 : 0;
    split.turned += file.info.orientation != 1 ? 1 : 0;
    widen(file.info.height, first, split.min_height, split.max_height);
    widen(file.info.width, first, split.min_width, split.max_width);
    first = false;
  }
  return split;
}

struct Part {
  Split split;
  ImageList list;
  std::vector<FileCheck> files;
  std::string missing = {};  // see SplitCheck
};

// Returns a part with these files and without the notes of `part`.
Part select_files(const Part& part, Split split, const std::vector<std::size_t>& indices) {
  Part result{split, {}, {}};
  result.list.source = part.list.source;
  for (const std::size_t i : indices) {
    result.list.files.push_back(part.list.files[i]);
    result.files.push_back(part.files[i]);
  }
  return result;
}

// Moves the files that data.validation_split sets aside out of `train`, as training does.
Part take_validation(Part& train, const config::Data& data, std::uint64_t seed) {
  const bool skips = data.on_error == config::OnError::kSkip;
  std::vector<std::size_t> divided, kept, aside;
  for (std::size_t i = 0; i < train.files.size(); ++i) {
    (skips && !train.files[i].error.empty() ? kept : divided).push_back(i);
  }
  std::vector<std::int32_t> labels;
  for (const std::size_t i : divided) labels.push_back(train.list.files[i].label);
  const Division division = divide_samples(labels, data.validation_split, seed);
  for (const std::int64_t i : division.train) kept.push_back(divided[static_cast<std::size_t>(i)]);
  for (const std::int64_t i : division.validation) {
    aside.push_back(divided[static_cast<std::size_t>(i)]);
  }
  std::sort(kept.begin(), kept.end());
  Part validation = select_files(train, Split::kValidation, aside);
  validation.list.notes.push_back(concat("set aside from the training files by ",
                                         "data.validation_split: ", data.validation_split,
                                         " with seed ", seed));
  std::vector<std::string> notes = std::move(train.list.notes);
  std::string missing = std::move(train.missing);
  train = select_files(train, Split::kTrain, kept);
  train.list.notes = std::move(notes);
  train.missing = std::move(missing);
  return validation;
}

bool divides_train(const config::Data& data) {
  return data.validation_split > 0 && data.validation.path.empty() && data.validation.glob.empty();
}

// Lists and checks the files of one split as training uses them.
Part read_part(const config::Data& data, std::uint64_t seed, Split split, SplitImages source,
               const std::vector<std::string>& classes) {
  Part part{split, std::move(source).list(classes), {}};
  config::Data resolved = data;
  if (split == Split::kTrain) {
    note_unused_folders(data, part.list);
    note_similar_names(classes, part.list);
    std::string range = resolve_range(part.list, resolved).text;
    if (!range.empty()) part.list.notes.push_back(std::move(range));
  }
  resolve_conflicts(data, classes, part.list);
  if (split == Split::kTrain && data.limit) {
    const std::size_t all = part.list.files.size();
    draw_files(part.list, *data.limit, seed);
    part.list.notes.push_back(concat("data.limit: ", part.list.files.size(), " of ", all,
                                     " files; the others are not read"));
  }
  part.missing = describe_missing_files(part.list, data.csv);
  part.files = check_files(part.list, data);
  if (split == Split::kTrain) {
    std::string note = scaled_decode_note(part.list, resolved);
    if (!note.empty()) part.list.notes.push_back(std::move(note));
  }
  return part;
}

std::vector<Part> read_parts(const config::Data& data, std::uint64_t seed, SplitImages train,
                             const std::vector<std::string>& classes) {
  std::vector<Part> parts;
  if (image_split(data, Split::kTrain).given()) {
    parts.push_back(read_part(data, seed, Split::kTrain, std::move(train), classes));
  }
  for (const Split split : {Split::kValidation, Split::kTest}) {
    if (split == Split::kValidation && divides_train(data)) {
      Part validation = take_validation(parts.front(), data, seed);
      parts.push_back(std::move(validation));
      continue;
    }
    const config::SplitFiles named = image_split(data, split);
    if (!named.given()) continue;
    parts.push_back(read_part(data, seed, split, SplitImages(data, named), classes));
  }
  return parts;
}

// The pattern of --group-by. For any pattern, RE2 needs time and memory linear in the path.
class GroupPattern {
 public:
  // An empty pattern matches nothing. Throws ConfigError for an invalid pattern.
  explicit GroupPattern(const std::string& pattern)
      : is_given_(!pattern.empty()), pattern_(pattern, options()) {
    if (pattern_.ok()) return;
    throw ConfigError({}, concat("--group-by '", printable(pattern), "': ", pattern_.error(),
                                 "; it takes the syntax of RE2 "
                                 "(https://github.com/google/re2/wiki/Syntax), which has no "
                                 "back-references and no look-around"));
  }

  // Returns the first parentheses of the first match, or the whole match of a pattern without any.
  std::optional<std::string> find(const std::string& path) const {
    if (!is_given_) return std::nullopt;
    re2::StringPiece match[2];
    if (!pattern_.Match(path, 0, path.size(), re2::RE2::UNANCHORED, match, 2)) return std::nullopt;
    return (pattern_.NumberOfCapturingGroups() > 0 ? match[1] : match[0]).as_string();
  }

 private:
  static re2::RE2::Options options() {
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_encoding(re2::RE2::Options::EncodingLatin1);  // a path is bytes
    return options;
  }

  bool is_given_;
  re2::RE2 pattern_;
};

struct Seen {
  Split split;
  std::string path;
  std::int32_t label;
};

}  // namespace

bool DataCheck::clean() const {
  const bool damaged = std::any_of(splits.begin(), splits.end(),
                                   [](const SplitCheck& split) { return !split.damaged.empty(); });
  return !damaged && duplicates.empty() && shared_groups.empty();
}

DataCheck check_images(const config::Data& data, std::uint64_t seed, const std::string& group_by) {
  if (!config::is_image_format(data.format)) {
    throw ConfigError(data.loc,
                      "data.format: only image files can be checked (image_folder, csv, "
                      "tfrecord, webdataset)");
  }
  const GroupPattern pattern(group_by);
  DataCheck result;
  SplitImages train(data, image_split(data, Split::kTrain));
  result.classes = train.class_names();
  result.class_order = train.find_class_order();
  std::string example;
  std::map<std::string, Seen> by_hash;
  // The classes of each photo by split and hash. Training settles conflicts before it sets
  // validation samples aside.
  std::map<std::pair<Split, std::string>, std::set<std::int32_t>> classes_by_photo;
  // For each group, the name of each split that has it, with a file.
  std::map<std::string, std::map<std::string, std::string>> groups;
  bool divided = false;  // a group or equal files lie in training and in the part set aside
  for (const auto& [split, list, files, missing] :
       read_parts(data, seed, std::move(train), result.classes)) {
    result.splits.push_back(summarise(split, list, files, result.classes));
    result.splits.back().missing = missing;
    if (!list.files.empty()) example = list.files[0].path;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const ListedFile& file = list.files[i];
      if (const std::optional<std::string> group = pattern.find(file.path)) {
        groups[*group].emplace(to_string(split), file.path);
        ++result.grouped_files;
      }
      if (files[i].hash.empty()) continue;
      const Split source =
          split == Split::kValidation && divides_train(data) ? Split::kTrain : split;
      std::set<std::int32_t>& labels = classes_by_photo[{source, files[i].hash}];
      if (labels.insert(file.label).second && labels.size() == 2) ++result.conflicts;
      const auto [at, fresh] =
          by_hash.try_emplace(files[i].hash, Seen{split, file.path, file.label});
      const Seen& seen = at->second;
      if (fresh || (seen.split == split && seen.label == file.label)) continue;
      result.duplicates.push_back(concat(seen.path, " (", to_string(seen.split), ") = ", file.path,
                                         " (", to_string(split), ")",
                                         seen.label == file.label ? "" : ", another class"));
      divided = divided || (seen.split == Split::kTrain && split == Split::kValidation);
    }
  }
  result.grouped = !group_by.empty();
  result.groups = static_cast<std::int64_t>(groups.size());
  if (result.grouped && groups.empty()) {
    throw ConfigError({}, concat("--group-by '", printable(group_by),
                                 "' matches none of the files' paths, e.g. ", printable(example)));
  }
  for (const auto& [value, splits] : groups) {
    if (splits.size() < 2) continue;
    std::string text = "'" + value + "':";
    for (const auto& [split, path] : splits) text += " " + split + " (" + path + ")";
    result.shared_groups.push_back(text);
    divided = divided || (splits.contains(to_string(Split::kTrain)) &&
                          splits.contains(to_string(Split::kValidation)));
  }
  if (divided && divides_train(data)) {
    result.advice =
        "data.validation_split divides the files one by one, without regard to groups and copies. "
        "To keep them together, move whole groups into a folder of their own (or a csv) and name "
        "it in data.validation: {path: ...} instead of validation_split";
  }
  return result;
}

}  // namespace trainer::data
