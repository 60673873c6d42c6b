#include "data/images/listing/relabel.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/formats/csv_lines.h"
#include "base/text.h"
#include "data/image_split.h"
#include "data/images/listing/csv.h"
#include "data/images/listing/labels.h"
#include "data/split_folders.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kLeftOut = -1;  // in place of a class

std::string normalize_path(const std::string& path) {
  return fs::path(path).lexically_normal().string();
}

// Returns a path counted from `folder`; "" if it does not lie below it.
std::string make_relative(const std::string& path, const Path& folder) {
  if (folder.empty()) return "";
  const std::string relative =
      fs::path(path).lexically_relative(folder.lexically_normal()).string();
  return relative == "." || relative == ".." || relative.starts_with("../") ? "" : relative;
}

// Returns the folder from which the paths of a split may count, besides data.path.
Path find_root(const config::Data& data, const config::SplitFiles& split) {
  const Path path = split.path;
  if (data.format != config::DataFormat::kCsv) {
    return is_folder(path) ? path : path.parent_path();
  }
  if (!data.csv.root.empty()) return data.csv.root;
  return path.has_parent_path() ? path.parent_path() : Path(".");
}

std::size_t find_column(const std::string& file, const CsvLine& header, const std::string& name) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < header.cells.size(); ++i) {
    if (to_lower(header.cells[i]) != name) continue;
    if (found) fail_at(file, header.line, concat("has two columns '", name, "'; remove one"));
    found = i;
  }
  if (found) return *found;
  fail_at(file, header.line,
          concat("has no column '", name, "', but ", printable(join(header.cells)),
                 "; a file for data.relabel begins with a header that has the columns path and "
                 "label"));
}

// Throws DataError if a class that had training images keeps none.
void check_classes_kept(const std::string& file, const ImageList& list,
                        const std::vector<std::int32_t>& labels,
                        const std::vector<std::string>& classes) {
  constexpr std::size_t kMaxNames = 5;
  std::vector<std::int64_t> before(classes.size()), after(classes.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    ++before[list.files[i].label];
    if (labels[i] != kLeftOut) ++after[labels[i]];
  }
  std::vector<std::string> emptied;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    if (before[label] > 0 && after[label] == 0) emptied.push_back(printable(classes[label]));
  }
  if (emptied.empty()) return;
  throw DataError(file, "leaves no training image of the ",
                  emptied.size() == 1 ? "class " : "classes ", join_first(emptied, kMaxNames),
                  "; to remove a class, move its images or change the list of images (",
                  list.source, "), or correct the labels of data.relabel");
}

}  // namespace

std::string RelabelCounts::describe() const {
  return concat("data.relabel: ", printable(file), " changes ", counted(changed, "label"),
                " and leaves out ", counted(dropped, "image"));
}

Relabel::Relabel(const config::Data& data) : data_(data) {
  counts_.file = data.relabel;
  if (!data.relabel.empty()) read();
}

void Relabel::read() {
  const std::string& file = data_.relabel;
  if (!is_file(file)) {
    throw DataError(file,
                    "no such file, named by data.relabel. Give its place with --set "
                    "data.relabel=NEW, or use the labels of the data with --set "
                    "'data.relabel=\"\"'");
  }
  const std::vector<CsvLine> lines = read_csv_lines(file, "");
  if (lines.empty()) {
    throw DataError(file,
                    "is empty; a file for data.relabel begins with a header that has the columns "
                    "path and label");
  }
  const CsvLine& header = lines.front();
  const std::size_t path = find_column(file, header, "path");
  const std::size_t label = find_column(file, header, "label");
  std::set<std::pair<std::string, std::string>> known;  // paths and labels
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const CsvLine& line = lines[i];
    if (line.cells.size() != header.cells.size()) {
      fail_at(file, line.line,
              concat("has ", line.cells.size(), " fields; expected ", header.cells.size(),
                     ", as the first line has"));
    }
    Row row{line.cells[path], line.cells[label], line.line};
    if (row.path.empty()) fail_at(file, line.line, "has no path; name an image of the data");
    // Rows are compared for each image, so that many equal ones would take long.
    if (!known.emplace(normalize_path(row.path), row.label).second) continue;
    const std::size_t index = rows_.size();
    rows_by_path_[normalize_path(row.path)].push_back(index);
    if (row.path.find('\\') != std::string::npos) {
      std::string with_slashes = row.path;
      std::ranges::replace(with_slashes, '\\', '/');
      rows_by_path_[normalize_path(with_slashes)].push_back(index);
    }
    has_absolute_paths_ = has_absolute_paths_ || fs::path(row.path).is_absolute();
    rows_.push_back(std::move(row));
  }
}

void Relabel::add_rows(const std::string& path, Rows& rows) const {
  if (path.empty()) return;
  const auto add = [&](const std::string& key) {
    const auto found = rows_by_path_.find(key);
    if (found == rows_by_path_.end()) return;
    for (const std::size_t row : found->second) {
      if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
    }
  };
  add(path);
  const std::string& ending = data_.csv.ending;
  if (!ending.empty() && path.ends_with(ending)) {
    add(path.substr(0, path.size() - ending.size()));
  }
}

Relabel::Rows Relabel::find_rows(const ListedFile& file, const Path& root) const {
  const std::string name = normalize_path(file.describe());
  Rows rows;
  add_rows(name, rows);
  // In a file of many images, the name of an image continues the path of the file.
  const std::string path =
      file.name.empty() ? name : normalize_path(concat(file.path, '/', file.name));
  if (!file.name.empty()) add_rows(path, rows);
  add_rows(make_relative(path, data_.path), rows);
  add_rows(make_relative(path, root), rows);
  if (has_absolute_paths_) add_rows(normalize_path(fs::absolute(name).string()), rows);
  std::ranges::sort(rows);
  return rows;
}

void Relabel::assign(Row& row, const ListedFile& file) const {
  const std::string image = file.describe();
  if (row.image.empty()) row.image = image;
  if (row.image == image) return;
  fail_at(data_.relabel, row.line,
          concat("the path '", printable(row.path), "' names several images, ",
                 printable(row.image), " and ", printable(image), "; write one of these paths"));
}

void Relabel::apply(Split split, const std::vector<std::string>& classes, ImageList& list) {
  if (data_.relabel.empty()) return;
  listed_.insert(split);
  if (list.label_sets) {
    throw ConfigError(data_.loc, "data.relabel works with one class per image, but the images of ",
                      list.source, " have several labels; correct them in the list itself");
  }
  const LabelIndex index(classes);
  const auto find_class = [&](const Row& row) {
    if (row.label.empty()) return kLeftOut;
    return index.find(row.label, [&](const std::string& what) {
      fail_at(data_.relabel, row.line,
              concat(what,
                     ". Give a class of the data, or leave the label empty to leave the "
                     "image out"));
    });
  };
  const Path root = find_root(data_, image_split(data_, split));
  std::vector<std::int32_t> labels;
  for (const ListedFile& file : list.files) {
    std::int32_t label = file.label;
    const Row* first = nullptr;
    for (const std::size_t i : find_rows(file, root)) {
      Row& row = rows_[i];
      assign(row, file);
      const std::int32_t found = find_class(row);
      if (first != nullptr && found != label) {
        fail_at(data_.relabel, row.line,
                concat("gives '", printable(row.path), "' the label '", printable(row.label),
                       "', but line ", first->line, " gives the same image the label '",
                       printable(first->label), "'; remove one of these lines"));
      }
      label = found;
      if (first == nullptr) first = &row;
    }
    labels.push_back(label);
  }
  if (split == Split::kTrain) check_classes_kept(data_.relabel, list, labels, classes);
  std::vector<ListedFile> files;
  std::vector<int> lines;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kLeftOut) {
      ++counts_.dropped;
      continue;
    }
    if (labels[i] != list.files[i].label) ++counts_.changed;
    files.push_back(std::move(list.files[i]));
    files.back().label = labels[i];
    if (!list.lines.empty()) lines.push_back(list.lines[i]);
  }
  if (files.empty() && !labels.empty()) {
    throw DataError(data_.relabel, "leaves no image of the ", to_string(split), " split (",
                    list.source, "); give labels to some of them");
  }
  list.files = std::move(files);
  list.lines = std::move(lines);
}

void Relabel::check_rows(const std::vector<std::string>& classes) {
  const auto is_unknown = [](const Row& row) { return row.image.empty(); };
  for (const Split split : kSplits) {
    if (std::ranges::none_of(rows_, is_unknown)) return;
    if (listed_.contains(split)) continue;
    const config::SplitFiles named = image_split(data_, split);
    if (!named.given()) continue;
    const Path root = find_root(data_, named);
    const ImageList list = SplitImages(data_, named).list(classes);
    for (const ListedFile& file : list.files) {
      for (const std::size_t row : find_rows(file, root)) assign(rows_[row], file);
    }
  }
  const auto row = std::ranges::find_if(rows_, is_unknown);
  if (row == rows_.end()) return;
  const auto count = std::ranges::count_if(rows_, is_unknown);
  fail_at(data_.relabel, row->line,
          concat("the path '", printable(row->path), "' is not an image of the data",
                 count == 1 ? "" : concat(", nor are those of ", count - 1, " more lines"),
                 "; write it as `trainer data` prints it, or counted from data.path or from the "
                 "folder of the list, or remove the line"));
}

}  // namespace trainer::data
