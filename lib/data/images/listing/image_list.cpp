#include "data/images/listing/image_list.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/numbers/random.h"
#include "base/text.h"
#include "data/class_names.h"
#include "data/image_split.h"
#include "data/images/listing/csv.h"
#include "data/images/listing/folders.h"
#include "data/images/listing/group_pattern.h"
#include "data/images/listing/labels.h"
#include "data/images/listing/list_shards.h"
#include "data/images/listing/missing_files.h"
#include "data/images/listing/shards.h"
#include "data/split_folders.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// Returns the line on columns of a csv that have 0 but no 1; "" if there are none.
std::string describe_zeros(const std::string& path, const std::vector<std::string>& columns) {
  constexpr std::size_t kMaxNames = 10;
  if (columns.empty()) return "";
  const bool is_one = columns.size() == 1;
  return concat(path, is_one ? ": the column " : ": the columns ", join_first(columns, kMaxNames),
                is_one ? " has no 1 and is" : " have no 1 and are", " not taken as ",
                is_one ? "a label" : "labels", "; if ", is_one ? "it is one" : "they are labels",
                ", list all labels in data.classes");
}

LabelledList list_csv(const config::Data& data, const config::SplitFiles& split,
                      const std::vector<std::string>& label_columns) {
  LabelledList result;
  ImageList& list = result.list;
  list.source = split.path;
  CsvList read = read_csv(split.path, data, label_columns);
  list.has_groups = read.has_groups;
  list.missing_groups = std::move(read.missing_groups);
  result.classes = std::move(read.classes);
  result.has_several_labels = read.has_several_labels;
  list.note_left_aside(describe_zeros(split.path, read.zeros));
  for (CsvRow& row : read.rows) {
    list.files.push_back({std::move(row.path), 0, row.weight});
    list.files.back().group = std::move(row.group);
    list.has_weights = list.has_weights || row.has_weight;
    list.lines.push_back(row.line);
    if (read.has_several_labels) {
      result.names.push_back(std::move(row.labels));
      result.targets.push_back(std::move(row.targets));
    } else {
      result.labels.push_back(std::move(row.label));
    }
  }
  return result;
}

// Sets the classes of the files of a list with one class per image.
void set_classes(LabelledList& read, const std::vector<std::string>& classes) {
  const LabelIndex index(classes);
  for (std::size_t i = 0; i < read.list.files.size(); ++i) {
    read.list.files[i].label = index.find(
        read.labels[i], [&](const std::string& what) { throw DataError(read.place(i), what); });
  }
}

// Sets the label sets of the files of a list with several labels per image.
void set_label_sets(LabelledList& read, const std::vector<std::string>& classes) {
  const LabelIndex index(classes);
  const auto find = [&](const std::string& name, std::size_t file) {
    return index.find(name,
                      [&](const std::string& what) { throw DataError(read.place(file), what); });
  };
  auto sets = std::make_shared<LabelSets>(classes.size());
  std::vector<std::int32_t> columns;  // the class of each column
  for (const std::string& name : read.classes) columns.push_back(find(name, 0));
  for (std::size_t i = 0; i < read.list.files.size(); ++i) {
    std::vector<std::int32_t> present, unknown;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const float target = read.targets[i][c];
      if (std::isnan(target)) {
        unknown.push_back(columns[c]);
      } else if (target > 0) {
        present.push_back(columns[c]);
      }
    }
    for (const std::string& name : read.names[i]) present.push_back(find(name, i));
    read.list.files[i].label = sets->add(std::move(present), std::move(unknown));
  }
  read.list.label_sets = std::move(sets);
}

// The longest class name in bytes. Reports, pictures and messages contain the names.
constexpr std::size_t kMaxClassNameBytes = 1000;

}  // namespace

void note_unused_folders(const config::Data& data, ImageList& list) {
  if (data.format != config::DataFormat::kImageFolder || !is_folder(data.path)) return;
  if (!needs_split_in_path(data, Split::kTrain)) return;
  for (std::string& note : find_split_folders(find_data_root(data.path), data.classes).notes) {
    list.note_left_aside(std::move(note));
  }
}

void note_similar_names(const std::vector<std::string>& classes, ImageList& list) {
  for (const std::string& line : describe_similar_names(classes)) {
    list.note_left_aside(concat(list.source, ": ", line));
  }
}

void ImageList::note_left_aside(std::string line) {
  if (line.empty()) return;
  notes.push_back(line);
  left_aside.push_back(std::move(line));
}

std::string ImageList::label_name(std::size_t file, const std::vector<std::string>& classes) const {
  const std::int32_t label = files[file].label;
  return label_sets ? label_sets->describe(label, classes) : classes[label];
}

std::string LabelledList::place(std::size_t file) const {
  if (!list.lines.empty()) return concat(list.source, ':', list.lines[file]);
  return list.files[file].describe();
}

std::vector<std::string> LabelledList::join_names() const {
  std::vector<std::string> all;
  for (const auto& file_names : names) all.insert(all.end(), file_names.begin(), file_names.end());
  return all;
}

SplitImages::SplitImages(const config::Data& data, config::SplitFiles split, Progress progress)
    : data_(data),
      split_(std::move(split)),
      progress_(std::move(progress)),
      label_columns_(data.classes) {}

bool SplitImages::has_labels() const {
  return data_.format == config::DataFormat::kCsv || holds_shards(data_);
}

const LabelledList& SplitImages::labelled() {
  if (!labelled_) {
    labelled_ = holds_shards(data_) ? list_shards(data_, split_, progress_)
                                    : list_csv(data_, split_, label_columns_);
  }
  return *labelled_;
}

std::vector<std::string> SplitImages::find_class_names() {
  const std::string source = split_.glob.empty() ? split_.path : split_.glob;
  const auto fail_of_names = [&](std::size_t, const std::string& what) {
    throw DataError(source, what);
  };
  if (has_labels()) {
    const auto fail = [&](std::size_t file, const std::string& what) {
      throw DataError(labelled().place(file), what);
    };
    const std::vector<std::string>& columns = labelled().classes;
    if (!columns.empty()) {
      return data_.class_order ? sort_classes(columns, *data_.class_order, fail_of_names) : columns;
    }
    if (labelled().has_several_labels) return find_label_names();
    reject_several_labels(labelled().labels, fail);
    return find_classes(labelled().labels, data_.class_order, fail);
  }
  const std::vector<std::string> names =
      split_.glob.empty() ? find_class_folders(split_.path) : glob_classes(split_);
  if (names.empty()) {
    throw DataError(source,
                    "contains no folder with images; format image_folder needs one per class");
  }
  return sort_classes(names, data_.class_order.value_or(config::ClassOrder::kText), fail_of_names);
}

// Returns the different labels in the cells of a csv, sorted.
std::vector<std::string> SplitImages::find_label_names() {
  const std::vector<std::string> names = labelled().join_names();
  std::vector<std::size_t> files;  // by name
  for (std::size_t i = 0; i < labelled().names.size(); ++i) {
    files.insert(files.end(), labelled().names[i].size(), i);
  }
  if (names.empty()) throw DataError(labelled().list.source, "no image has a label");
  return sort_classes(names, data_.class_order.value_or(choose_order(names)),
                      [&](std::size_t name, const std::string& what) {
                        throw DataError(labelled().place(files[name]), what);
                      });
}

std::string SplitImages::find_class_order() {
  if (!data_.classes.empty()) return "data.classes";
  if (data_.class_order) return std::string(spell(*data_.class_order));
  if (!has_labels()) return std::string(spell(config::ClassOrder::kText));
  if (!labelled().classes.empty()) return "columns";
  if (!labelled().has_several_labels) return std::string(spell(choose_order(labelled().labels)));
  return std::string(spell(choose_order(labelled().join_names())));
}

std::vector<std::string> SplitImages::class_names() {
  if (!data_.classes.empty()) return data_.classes;
  std::vector<std::string> names = find_class_names();
  for (const std::string& name : names) {
    if (name.size() > kMaxClassNameBytes) fail_with_long_name(name);
    if (is_line_of_text(name)) continue;
    throw DataError(split_.path.empty() ? split_.glob : split_.path,
                    has_labels() ? "the label '" : "the folder '", escaped(name),
                    "' names a class, but its name is not UTF-8 without control "
                    "characters; rename it");
  }
  return names;
}

void SplitImages::fail_with_long_name(const std::string& name) {
  std::string place = split_.path.empty() ? split_.glob : split_.path;
  if (has_labels()) {
    const std::vector<std::string>& labels = labelled().labels;
    const auto found = std::ranges::find(labels, name);
    // The name of a one-hot column may be the label of no line.
    if (found != labels.end()) {
      place = labelled().place(found - labels.begin());
    }
  }
  throw DataError(place, "the label '", escaped(name.substr(0, 40)), "...' has ", name.size(),
                  " bytes; the name of a class may have at most ", kMaxClassNameBytes);
}

ImageList SplitImages::list(const std::vector<std::string>& classes) && {
  ImageList list = has_labels()          ? list_labelled(classes)
                   : split_.glob.empty() ? list_folder(split_, classes, progress_)
                                         : list_glob(split_, classes);
  assign_groups(data_, list);
  return list;
}

ImageList SplitImages::list_labelled(const std::vector<std::string>& classes) {
  if (!labelled_) label_columns_ = classes;
  labelled();
  LabelledList read = std::move(*labelled_);
  labelled_.reset();
  if (read.has_several_labels) {
    set_label_sets(read, classes);
  } else {
    set_classes(read, classes);
  }
  return std::move(read.list);
}

void check_files_exist(const ImageList& list, const config::Data& data) {
  const auto place = [&](std::size_t i) { return concat(list.source, ':', list.lines[i]); };
  if (const std::string missing = describe_missing_files(list, data.csv); !missing.empty()) {
    throw DataError(place(0), missing);
  }
  if (data.on_error != config::OnError::kFail) return;
  for (std::size_t i = 0; i < list.lines.size(); ++i) {
    if (path_exists(list.files[i].path)) continue;
    throw DataError(place(i), "there is no file ", list.files[i].path,
                    "; correct the line, or start a run without the file: --set "
                    "data.on_error=replace; ",
                    csv_root_advice());
  }
}

void draw_files(ImageList& list, std::int64_t count, std::uint64_t seed) {
  if (count >= std::ssize(list.files)) return;
  std::map<std::int32_t, std::vector<std::size_t>> by_class;
  for (std::size_t i = 0; i < list.files.size(); ++i) by_class[list.files[i].label].push_back(i);
  // Each class is shuffled and spread evenly over (0, 1), but for its first file, which comes
  // before all others; the files up to some place on that line are taken.
  std::vector<std::pair<double, std::size_t>> places;
  for (auto& [label, files] : by_class) {
    // The counters differ from those of label -1, which divide training from validation.
    Random random(seed, Stream::kSplit, static_cast<std::uint64_t>(label) + 1);
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::swap(files[i], files[i + random.below(files.size() - i)]);
      const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(files.size());
      places.emplace_back(i == 0 ? 0 : place, files[i]);
    }
  }
  std::ranges::sort(places);
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    kept.push_back(places[i].second);
  }
  std::ranges::sort(kept);
  std::vector<ListedFile> files;
  for (const std::size_t i : kept) files.push_back(std::move(list.files[i]));
  list.files = std::move(files);
  list.lines.clear();
}

}  // namespace trainer::data
