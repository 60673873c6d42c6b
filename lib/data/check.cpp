#include "data/check.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "base/threads/parallel.h"
#include "data/decode/image_file.h"
#include "data/image_split.h"
#include "data/images/conflicts.h"
#include "data/images/listing/group_pattern.h"
#include "data/images/listing/group_proposal.h"
#include "data/images/listing/image_list.h"
#include "data/images/listing/missing_files.h"
#include "data/images/listing/relabel.h"
#include "data/images/scaled_decode.h"
#include "data/images/value_range.h"
#include "data/samples/groups.h"
#include "data/samples/splits.h"
#include "data/samples/training_division.h"

namespace trainer::data {
namespace {

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
    result.hash = sha256(bytes);
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

// Returns the class of a file, or its labels, valid as long as the list.
std::span<const std::int32_t> find_labels(const ImageList& list, std::size_t file) {
  const std::int32_t& label = list.files[file].label;
  if (!list.label_sets) return {&label, 1};
  return list.label_sets->at(label).present;
}

// Returns a line on the files without a label and on the unknown labels of a split; "" for one
// class per file.
std::string describe_labels(const ImageList& list) {
  if (!list.label_sets) return "";
  std::int64_t without = 0, unknown = 0;
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    const LabelSet labels = list.label_sets->at(list.files[i].label);
    without += labels.present.empty() && labels.unknown.empty() ? 1 : 0;
    unknown += std::ssize(labels.unknown);
  }
  return concat("several labels per file: ", without, " of ", list.files.size(),
                " files have none, and ", unknown, " of ",
                list.files.size() * list.label_sets->labels(), " labels are unknown");
}

SplitCheck summarise(Split which, const ImageList& list, const std::vector<FileCheck>& files,
                     const std::vector<std::string>& classes) {
  SplitCheck split;
  split.split = which;
  split.notes = list.notes;
  split.files = std::ssize(files);
  if (std::string labels = describe_labels(list); !labels.empty()) {
    split.notes.push_back(std::move(labels));
  }
  split.per_class.resize(classes.size());
  split.class_kinds.resize(classes.size());
  bool first = true;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FileCheck& file = files[i];
    const std::span<const std::int32_t> labels = find_labels(list, i);
    for (const std::int32_t label : labels) ++split.per_class[label];
    if (!file.error.empty()) {
      split.damaged.push_back(concat(file.error, list.label_sets ? " (labels " : " (class ",
                                     list.label_name(i, classes), ")"));
      continue;
    }
    if (!file.warning.empty()) {
      split.suspicious.push_back(concat(list.files[i].describe(), ": ", file.warning));
    }
    ++split.kinds[to_string(file.info.kind)];
    for (const std::int32_t label : labels) {
      ++split.class_kinds[label][to_string(file.info.kind)];
    }
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
  result.list.label_sets = part.list.label_sets;
  for (const std::size_t i : indices) {
    result.list.files.push_back(part.list.files[i]);
    result.files.push_back(part.files[i]);
  }
  return result;
}

// Returns whether training leaves a file out because it is damaged.
bool is_skipped(const config::Data& data, const FileCheck& file) {
  return data.on_error == config::OnError::kSkip && !file.error.empty();
}

// Returns the strata of these files of a list.
Strata list_strata(const ImageList& list, std::span<const std::size_t> indices) {
  if (list.label_sets) {
    std::vector<LabelSet> sets;
    for (const std::size_t i : indices) sets.push_back(list.label_sets->at(list.files[i].label));
    return Strata(sets);
  }
  std::vector<std::int32_t> classes;
  for (const std::size_t i : indices) classes.push_back(list.files[i].label);
  return Strata(classes);
}

// Moves the files that the config sets aside for validation out of `train`, as training does.
Part take_validation(Part& train, const config::Data& data, std::uint64_t seed,
                     const std::vector<std::string>& classes) {
  std::vector<std::size_t> divided, kept, aside;
  for (std::size_t i = 0; i < train.files.size(); ++i) {
    (is_skipped(data, train.files[i]) ? kept : divided).push_back(i);
  }
  std::vector<std::string> groups;
  for (const std::size_t i : divided) {
    groups.push_back(train.list.files[i].group);
  }
  clear_if_ungrouped(groups);
  const Strata strata = list_strata(train.list, divided);
  const Division division = divide_training_samples(data, strata, groups, seed);
  for (const std::int64_t i : division.train) kept.push_back(divided[i]);
  for (const std::int64_t i : division.validation) {
    aside.push_back(divided[i]);
  }
  std::ranges::sort(kept);
  Part validation = select_files(train, Split::kValidation, aside);
  using Order = config::ValidationSplitOrder;
  const Order order = config::find_division_order(data);
  validation.list.notes.push_back(concat("set aside from the training files by ",
                                         describe_rule(data),
                                         order == Order::kLast ? "" : concat(" with seed ", seed)));
  if (data.fold || order != Order::kStratified || !groups.empty() || !strata.is_by_class()) {
    validation.list.notes.push_back(describe_shares(data, strata, division, classes));
  }
  std::vector<std::string> notes = std::move(train.list.notes);
  std::string missing = std::move(train.missing);
  train = select_files(train, Split::kTrain, kept);
  train.list.notes = std::move(notes);
  train.missing = std::move(missing);
  return validation;
}

// Lists and checks the files of one split as training uses them.
Part read_part(const config::Data& data, std::uint64_t seed, Split split, SplitImages source,
               const std::vector<std::string>& classes, Relabel& relabel) {
  Part part{split, std::move(source).list(classes), {}};
  relabel.apply(split, classes, part.list);
  config::Data resolved = data;
  if (split == Split::kTrain) {
    check_groups(data, part.list);
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
                             const std::vector<std::string>& classes, Relabel& relabel) {
  std::vector<Part> parts;
  if (image_split(data, Split::kTrain).given()) {
    parts.push_back(read_part(data, seed, Split::kTrain, std::move(train), classes, relabel));
  }
  for (const Split split : {Split::kValidation, Split::kTest}) {
    if (split == Split::kValidation && config::divides_training_samples(data)) {
      Part validation = take_validation(parts.front(), data, seed, classes);
      parts.push_back(std::move(validation));
      continue;
    }
    const config::SplitFiles named = image_split(data, split);
    if (!named.given()) continue;
    parts.push_back(read_part(data, seed, split, SplitImages(data, named), classes, relabel));
  }
  relabel.check_rows(classes);
  return parts;
}

// Collects the groups of files, and the splits that have them.
class GroupCheck {
 public:
  // `option` is the pattern of --group-by; "" takes the groups of the config.
  GroupCheck(const config::Data& data, const std::string& option) : data_(data), option_(option) {
    if (!option.empty()) pattern_.emplace("--group-by", option);
  }

  void add(Split split, const ListedFile& file) {
    example_ = file.describe();
    const std::string group = pattern_ ? pattern_->find(example_) : file.group;
    if (!has_groups()) return;
    if (group.empty()) {
      ++ungrouped_;
      return;
    }
    ++grouped_;
    splits_[group].emplace(split, example_);
  }

  // Throws ConfigError if the pattern of --group-by matches no file.
  void report(DataCheck& result) const {
    if (!has_groups()) return;
    result.group_source = pattern_ ? "--group-by" : "data.group_by";
    result.grouped_files = grouped_;
    result.ungrouped_files = ungrouped_;
    result.groups = std::ssize(splits_);
    if (pattern_ && splits_.empty()) {
      throw ConfigError({}, "--group-by '", printable(option_),
                        "' matches none of the files' paths, e.g. ", printable(example_));
    }
    for (const auto& [name, splits] : splits_) {
      if (splits.size() < 2) continue;
      std::string text = "'" + name + "':";
      for (const auto& [split, path] : splits)
        text += concat(' ', to_string(split), " (", path, ')');
      result.shared_groups.push_back(text);
    }
  }

  // Returns whether a group is in training and in the part that is set aside for validation.
  bool is_divided() const {
    return std::ranges::any_of(splits_, [](const auto& group) {
      return group.second.contains(Split::kTrain) && group.second.contains(Split::kValidation);
    });
  }

 private:
  bool has_groups() const { return pattern_ || !data_.group_by.empty(); }

  const config::Data& data_;
  const std::string& option_;
  std::optional<GroupPattern> pattern_;
  std::string example_;
  std::int64_t grouped_ = 0, ungrouped_ = 0;
  // For each group, a file of each split that has it.
  std::map<std::string, std::map<Split, std::string>> splits_;
};

// Returns how to keep files together that the training part and the part set aside share.
std::string advise_on_groups(const config::Data& data) {
  const char* const one_by_one =
      " divides the files one by one, without regard to groups and copies. To keep groups "
      "together, give data.group_by, a pattern as for --group-by";
  const char* const by_group =
      " keeps the groups of data.group_by together, but not these files: give a pattern that puts "
      "them into one group, and remove copies";
  const char* const own_list =
      "; or move whole groups into a folder of their own (or a csv) and name it in "
      "data.validation: {path: ...} instead of validation_split";
  // data.fold overrides data.validation.
  return concat(describe_rule(data), data.group_by.empty() ? one_by_one : by_group,
                data.fold ? "" : own_list);
}

// The first file with some content.
struct Seen {
  const Part* part;
  std::size_t file;
};

// Returns whether files of two lists have the same class or the same labels. The lists number sets
// of labels differently.
bool have_equal_labels(const Seen& a, const Seen& b) {
  const auto is_equal = [](std::span<const std::int32_t> x, std::span<const std::int32_t> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
  };
  const ImageList &first = a.part->list, &second = b.part->list;
  const std::int32_t label = first.files[a.file].label, other = second.files[b.file].label;
  if (first.label_sets == second.label_sets) return label == other;
  if (!first.label_sets || !second.label_sets) return false;
  const LabelSet labels = first.label_sets->at(label), others = second.label_sets->at(other);
  return is_equal(labels.present, others.present) && is_equal(labels.unknown, others.unknown);
}

}  // namespace

bool DataCheck::clean() const {
  const bool damaged =
      std::ranges::any_of(splits, [](const SplitCheck& split) { return !split.damaged.empty(); });
  return !damaged && duplicates.empty() && shared_groups.empty();
}

DataCheck check_images(const config::Data& data, std::uint64_t seed, const std::string& group_by) {
  if (!config::is_image_format(data.format)) {
    throw ConfigError(data.loc,
                      "data.format: only image files can be checked (image_folder, csv, "
                      "tfrecord, webdataset)");
  }
  GroupCheck groups(data, group_by);
  DataCheck result;
  SplitImages train(data, image_split(data, Split::kTrain));
  result.classes = train.class_names();
  result.class_order = train.find_class_order();
  Relabel relabel(data);
  std::map<std::string, Seen> by_hash;
  std::vector<std::string> train_paths;
  // The values of ListedFile::label of each photo by split and hash. Training resolves conflicts
  // before it sets validation samples aside.
  std::map<std::pair<Split, std::string>, std::set<std::int32_t>> labels_by_photo;
  bool has_divided_copies = false;  // equal files lie in training and in the part set aside
  const std::vector<Part> parts = read_parts(data, seed, std::move(train), result.classes, relabel);
  for (const Part& part : parts) {
    const auto& [split, list, files, missing] = part;
    result.splits.push_back(summarise(split, list, files, result.classes));
    result.splits.back().missing = missing;
    for (std::size_t i = 0; i < files.size(); ++i) {
      const ListedFile& file = list.files[i];
      if (!is_skipped(data, files[i])) groups.add(split, file);
      const Split source = split == Split::kValidation && config::divides_training_samples(data)
                               ? Split::kTrain
                               : split;
      if (source == Split::kTrain) train_paths.push_back(file.describe());
      if (files[i].hash.empty()) continue;
      std::set<std::int32_t>& labels = labels_by_photo[{source, files[i].hash}];
      if (labels.insert(file.label).second && labels.size() == 2) ++result.conflicts;
      const auto [at, is_new] = by_hash.try_emplace(files[i].hash, Seen{&part, i});
      const Seen& seen = at->second;
      const Split other = seen.part->split;
      const bool is_equal = have_equal_labels(seen, {&part, i});
      if (is_new || (other == split && is_equal)) continue;
      result.duplicates.push_back(concat(seen.part->list.files[seen.file].describe(), " (",
                                         to_string(other), ") = ", file.describe(), " (",
                                         to_string(split), ")", is_equal ? "" : ", another class"));
      if (other == Split::kTrain && split == Split::kValidation) has_divided_copies = true;
    }
  }
  if (!data.relabel.empty()) result.relabel = relabel.counts();
  groups.report(result);
  if (result.group_source.empty()) result.group_proposal = describe_proposal(train_paths);
  if (config::divides_training_samples(data) && (has_divided_copies || groups.is_divided())) {
    result.advice = advise_on_groups(data);
  }
  return result;
}

std::string describe_training_groups(const config::Data& data) {
  SplitImages train(data, image_split(data, Split::kTrain));
  const std::vector<std::string> classes = train.class_names();
  const ImageList list = std::move(train).list(classes);
  check_groups(data, list);
  std::vector<std::string> groups;
  for (const ListedFile& file : list.files) groups.push_back(file.group);
  return describe_groups(groups);
}

}  // namespace trainer::data
