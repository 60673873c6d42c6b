#include "data/images/listing/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/csv_lines.h"
#include "base/text.h"
#include "config/config.h"
#include "data/images/listing/labels.h"
#include "data/images/listing/missing_files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Cells = std::vector<std::string>;

// Usual names of columns, in lower case.
const Cells kImageColumns{"path",      "file",     "filename",   "file_name", "filepath",
                          "file_path", "image",    "image_path", "image_id",  "image_name",
                          "img",       "img_path", "id_code"};
// "y" is among them only in a list without "x", beside which it is a coordinate.
const Cells kLabelColumns{"label",     "class",      "target",   "category",
                          "diagnosis", "class_name", "class_id", "label_id"};
// "weight" alone is not among them: it may describe the object in the image.
const Cells kWeightColumns{"sample_weight"};

bool contains(const Cells& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

struct Columns {
  std::size_t image = 0, label = 1, count = 2;
  bool has_names = false;  // the first row is a header
  std::optional<std::size_t> weight = {};
  std::vector<std::size_t> one_hot = {};  // columns of 0 and 1, in place of `label`
  std::vector<std::size_t> zeros = {};    // columns of 0 without a 1, which are not labels
  bool has_several_labels = false;
  std::optional<std::size_t> group = {};
};

// Finds columns by their names.
class ColumnIndex {
 public:
  // `header` must outlive it.
  explicit ColumnIndex(const Cells& header) {
    for (std::size_t i = 0; i < header.size(); ++i) columns_.emplace(header[i], i);
  }
  // Returns the first column of this name.
  std::optional<std::size_t> find(const std::string& name) const {
    const auto found = columns_.find(name);
    if (found == columns_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::unordered_map<std::string_view, std::size_t> columns_;
};

// Returns the index of the column that is named, or has a usual name; their number for none.
std::size_t find_column(const std::string& path, const Cells& header, const std::string& name,
                        const Cells& usual) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (name.empty() ? contains(usual, to_lower(header[i])) : header[i] == name) return i;
  }
  if (name.empty()) return header.size();
  fail_at(path, 1, concat("there is no column '", name, "'; the columns are ", join(header)));
}

// Returns the columns with usual names of labels.
std::vector<std::size_t> find_usual_labels(const Cells& header) {
  std::vector<std::size_t> found;
  std::optional<std::size_t> y;
  bool has_x = false;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::string name = to_lower(header[i]);
    if (contains(kLabelColumns, name)) found.push_back(i);
    if (name == "y" && !y) y = i;
    has_x = has_x || name == "x";
  }
  if (found.empty() && y && !has_x) found.push_back(*y);
  return found;
}

bool is_zero(const std::string& cell) { return cell == "0" || cell == "0.0"; }
bool is_one(const std::string& cell) { return cell == "1" || cell == "1.0"; }
bool is_minus_one(const std::string& cell) { return cell == "-1" || cell == "-1.0"; }

// Returns whether a cell marks a label as unknown.
bool is_unknown(const std::string& cell) {
  const std::string word = to_lower(cell);
  return word.empty() || word == "nan" || word == "na" || word == "<na>";
}

// Replaces the cells of -1 in the columns, beside that of groups, that otherwise have only cells of
// labels.
void resolve_uncertain(std::vector<CsvLine>& lines, config::Uncertain uncertain,
                       const std::string& group_by) {
  const char* const cell = uncertain == config::Uncertain::kIgnore   ? ""
                           : uncertain == config::Uncertain::kAbsent ? "0"
                                                                     : "1";
  const auto is_label = [](const std::string& text) {
    return is_minus_one(text) || is_zero(text) || is_one(text) || is_unknown(text);
  };
  for (std::size_t column = 0; column < lines[0].cells.size(); ++column) {
    const auto fits = [&](const CsvLine& line) {
      return column >= line.cells.size() || is_label(line.cells[column]);
    };
    const bool is_group = !group_by.empty() && lines[0].cells[column] == group_by;
    if (is_group || !std::all_of(lines.begin() + 1, lines.end(), fits)) continue;
    for (CsvLine& line : std::span(lines).subspan(1)) {
      if (column < line.cells.size() && is_minus_one(line.cells[column])) line.cells[column] = cell;
    }
  }
}

// Throws if a column has cells of -1, with which some lists mark an uncertain label, and otherwise
// only cells of labels.
void reject_minus_one(const std::string& path, const std::vector<CsvLine>& lines,
                      std::size_t column) {
  int line = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].cells.size() <= column) return;
    const std::string& cell = lines[i].cells[column];
    if (is_minus_one(cell)) {
      if (line == 0) line = lines[i].line;
    } else if (!is_unknown(cell) && !is_zero(cell) && !is_one(cell)) {
      return;
    }
  }
  if (line == 0) return;
  fail_at(path, line,
          concat("the column '", lines[0].cells[column],
                 "' has -1 beside 0 and 1; give data.csv.uncertain: ignore (unknown), 0 or 1 for "
                 "what it counts as, or name the columns of labels in data.classes"));
}

// Finds the columns beside those of `others` that have at least one 1 and otherwise only cells with
// 0, 1 or nothing, or with `several` any that is_unknown(), and with `several` also those with 0 in
// place of the 1. Finds nothing if fewer than two have a 1.
void find_one_hot(const std::string& path, const std::vector<CsvLine>& lines,
                  const std::vector<std::size_t>& others, bool several, Columns& result) {
  const std::size_t count = lines[0].cells.size();
  std::vector<std::size_t> columns, zeros;
  for (std::size_t column = 0; column < count; ++column) {
    if (std::ranges::find(others, column) != others.end()) continue;
    bool fits = !lines[0].cells[column].empty(), has_one = false, has_zero = false;
    for (std::size_t i = 1; fits && i < lines.size(); ++i) {
      const Cells& cells = lines[i].cells;
      if (cells.size() != count) continue;  // reported with its line later
      const std::string& cell = cells[column];
      fits = (several ? is_unknown(cell) : cell.empty()) || is_zero(cell) || is_one(cell);
      has_one = has_one || is_one(cell);
      has_zero = has_zero || is_zero(cell);
    }
    if (fits && has_one) columns.push_back(column);
    if (fits && several && !has_one && has_zero) zeros.push_back(column);
    if (!fits && several) reject_minus_one(path, lines, column);
  }
  const ColumnIndex index(lines[0].cells);
  for (const std::size_t column : columns) {
    if (index.find(lines[0].cells[column]) != column) {
      fail_at(path, lines[0].line, concat("has two columns '", lines[0].cells[column], "'"));
    }
  }
  if (columns.size() < 2) return;
  result.one_hot = std::move(columns);
  result.zeros = std::move(zeros);
}

// Returns whether a cell has the usual ending of an image.
bool ends_like_image(const std::string& cell) {
  static const Cells kEndings{".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"};
  return contains(kEndings, to_lower(fs::path(cell).extension().string()));
}

// Returns where the images are that a column of the lines after the first names: where the config
// or their names place them, or near the list. Returns nothing if they are not images.
std::optional<ImagePlace> find_column_images(const std::string& path,
                                             const std::vector<CsvLine>& lines, std::size_t column,
                                             const fs::path& folder, const config::Csv& csv) {
  constexpr std::size_t kTried = 3;
  Cells names;
  for (std::size_t i = 1; i < std::min(lines.size(), kTried + 1); ++i) {
    if (lines[i].cells.size() <= column) return std::nullopt;
    names.push_back(lines[i].cells[column]);
    if (names.back().find('\0') != std::string::npos) return std::nullopt;
  }
  const std::string& first = names[0];
  if (ends_like_image(first) || (!first.empty() && is_file(folder / first))) {
    return ImagePlace{folder, ""};
  }
  if (const auto place = find_images_near(folder, names)) return place;
  const fs::path csv_folder = fs::path(path).parent_path();
  return csv.root.empty() ? std::nullopt : find_images_near(csv_folder, names);
}

// Throws if the first of two lines of two fields without usual names is a header: one field of the
// later lines names images and the same field of the first line does not.
void reject_unusual_header(const std::string& path, const std::vector<CsvLine>& lines,
                           const fs::path& folder, const config::Csv& csv) {
  if (lines.size() < 2 || lines[1].cells.size() != 2) return;
  const Cells &first = lines[0].cells, &second = lines[1].cells;
  for (const std::size_t image : {0, 1}) {
    if (ends_like_image(first[image]) || first[image].find('\0') != std::string::npos) continue;
    const auto place = find_column_images(path, lines, image, folder, csv);
    if (!place || is_file(place->folder / (first[image] + place->ending)) ||
        is_file(folder / (first[image] + csv.ending))) {
      continue;
    }
    Cells keys{concat("image_column: ", config::to_yaml(first[image])),
               concat("label_column: ", config::to_yaml(first[1 - image]))};
    for (std::string& key : describe_keys(*place, folder)) {
      if (!key.starts_with("ending") || csv.ending.empty()) keys.push_back(std::move(key));
    }
    fail_at(path, lines[0].line,
            concat("looks like a header: '", first[image], "' is not an image, but '",
                   second[image], "' of line ", lines[1].line,
                   " is. Name the columns with data.csv: {", join(keys), "}"));
  }
}

// Returns whether a column of `labels` is one of several columns of 0 and 1 beside `others`, of
// which each line has a single 1.
bool has_one_hot_label(const std::vector<CsvLine>& lines, const std::vector<std::size_t>& others,
                       const std::vector<std::size_t>& labels) {
  std::vector<std::size_t> columns;
  for (std::size_t column = 0; column < lines[0].cells.size(); ++column) {
    const auto is_bit = [&](const CsvLine& line) {
      return column < line.cells.size() &&
             (is_zero(line.cells[column]) || is_one(line.cells[column]));
    };
    if (std::ranges::find(others, column) != others.end()) continue;
    if (std::all_of(lines.begin() + 1, lines.end(), is_bit)) columns.push_back(column);
  }
  const bool has_label = std::ranges::find_first_of(columns, labels) != columns.end();
  return has_label && columns.size() > 1 &&
         std::all_of(lines.begin() + 1, lines.end(), [&](const CsvLine& line) {
           return std::ranges::count_if(
                      columns, [&](std::size_t column) { return is_one(line.cells[column]); }) == 1;
         });
}

// Returns the column that data.group_by names; nothing if there is none.
std::optional<std::size_t> find_group_column(const CsvLine& header, const std::string& group_by) {
  if (group_by.empty()) return std::nullopt;
  const auto found = std::ranges::find(header.cells, group_by);
  if (found == header.cells.end()) return std::nullopt;
  return found - header.cells.begin();
}

// Returns why a list without the column `group_by` has no groups; "" if the text is a pattern on
// paths, or empty.
std::string describe_missing_groups(const std::string& path, const CsvLine& header,
                                    const std::string& group_by) {
  constexpr std::size_t kMaxNames = 20;
  const bool is_pattern = group_by.find_first_of("\\[](){}|.*+?^$/") != std::string::npos;
  if (group_by.empty() || is_pattern) return "";
  return concat(path, ':', header.line, ": there is no column '", printable(group_by),
                "', which data.group_by names; the columns are ",
                printable(join_first(header.cells, kMaxNames)));
}

// Returns the columns that have these names; an empty list if none has.
std::vector<std::size_t> find_named_labels(const std::string& path, const CsvLine& header,
                                           const Cells& names) {
  const ColumnIndex index(header.cells);
  std::vector<std::size_t> columns;
  Cells missing;
  for (const std::string& name : names) {
    if (const std::optional<std::size_t> column = index.find(name)) {
      columns.push_back(*column);
    } else {
      missing.push_back(name);
    }
  }
  if (!columns.empty() && !missing.empty()) {
    fail_at(path, header.line,
            concat("has no column for the labels ", join(missing), "; the labels are ", join(names),
                   ", and the columns ", join(header.cells)));
  }
  return columns;
}

// Finds all columns but that of groups. `group` is the column of groups, which is not a label.
Columns find_label_columns(const std::string& path, const std::vector<CsvLine>& lines,
                           const fs::path& folder, const config::Data& data,
                           const Cells& label_columns, std::optional<std::size_t> group) {
  const config::Csv& csv = data.csv;
  const Cells& first = lines[0].cells;
  const bool named =
      !csv.image_column.empty() || !csv.label_column.empty() || !csv.weight_column.empty();
  const std::size_t image = find_column(path, first, csv.image_column, kImageColumns);
  const std::size_t count = first.size();
  std::vector<std::size_t> labels;  // the columns that may be that of labels
  if (csv.label_column.empty()) {
    labels = find_usual_labels(first);
  } else {
    labels.push_back(find_column(path, first, csv.label_column, {}));
  }
  const std::size_t label = labels.empty() ? count : labels[0];
  const std::size_t weight = find_column(path, first, csv.weight_column, kWeightColumns);
  const bool has_separator = !csv.label_separator.empty();
  Columns columns{.image = image,
                  .label = label,
                  .count = count,
                  .has_names = true,
                  .has_several_labels = has_separator};
  if (weight < count) columns.weight = weight;
  const bool several = data.columns_are_labels && !has_separator;
  if (several && image < count && !label_columns.empty()) {
    columns.one_hot = find_named_labels(path, lines[0], label_columns);
    if (!columns.one_hot.empty()) {
      columns.has_several_labels = true;
      return columns;
    }
  }
  if (image < count && label < count) {
    std::vector<std::size_t> others{image, weight};
    if (group) others.push_back(*group);
    const bool may_be_one_hot = csv.label_column.empty() && !has_separator;
    if (may_be_one_hot && has_one_hot_label(lines, others, labels)) {
      find_one_hot(path, lines, others, several, columns);
      columns.has_several_labels = several;
      return columns;
    }
    if (labels.size() == 1) return columns;
    fail_at(path, lines[0].line,
            concat("the columns ", first[labels[0]], " and ", first[labels[1]],
                   " have usual names of classes; name the one to use with data.csv: "
                   "{label_column: ",
                   config::to_yaml(first[labels[0]]), "}"));
  }
  if (count == 2 && !named) {
    // A first line with the name of a file is not a header, although its class may be "label".
    reject_unusual_header(path, lines, folder, csv);
    return {.has_several_labels = has_separator};
  }
  if (count == 1) {
    fail_at(path, 1, "has one field; expected path,label, or give data.csv: {separator: ...}");
  }
  if (image < count && !has_separator) {
    std::vector<std::size_t> others{image, weight};
    if (group) others.push_back(*group);
    find_one_hot(path, lines, others, several, columns);
    columns.has_several_labels = several;
    if (several && !label_columns.empty() && !columns.one_hot.empty()) {
      fail_at(path, lines[0].line,
              concat("has no column for the labels ", join(label_columns), "; the columns are ",
                     join(first)));
    }
    if (!columns.one_hot.empty()) return columns;
  }
  fail_at(path, 1,
          concat("which of the columns ", join(first), " is the ",
                 image < count ? "class" : "image", "? Name it with data.csv: {image_column: ",
                 image < count ? config::to_yaml(first[image]) : "NAME",
                 ", label_column: ", label < count ? config::to_yaml(first[label]) : "NAME", "}"));
}

Columns find_columns(const std::string& path, const std::vector<CsvLine>& lines,
                     const fs::path& folder, const config::Data& data, const Cells& label_columns) {
  const std::optional<std::size_t> group = find_group_column(lines[0], data.group_by);
  Columns columns = find_label_columns(path, lines, folder, data, label_columns, group);
  columns.group = group;
  return columns;
}

// Returns the name of the one-hot column that has the 1 of a row.
std::string find_one_hot_label(const std::string& path, const CsvLine& row, const Cells& header,
                               const std::vector<std::size_t>& columns) {
  Cells names;
  for (const std::size_t column : columns) {
    if (is_one(row.cells[column])) names.push_back(header[column]);
  }
  if (names.size() == 1) return names[0];
  if (names.empty()) {
    fail_at(path, row.line,
            concat("has no label: none of the columns of 0 and 1 is 1; without model.loss: "
                   "binary_cross_entropy an image has one label"));
  }
  fail_at(path, row.line,
          concat("has ", names.size(), " labels, ", join(names),
                 "; without model.loss: binary_cross_entropy an image has one label. Give this "
                 "loss for several labels per image, or name the column of labels with data.csv: "
                 "{label_column: ...}"));
}

// Returns the numbers of a row in the columns of labels.
std::vector<float> read_targets(const std::string& path, const CsvLine& row, const Cells& header,
                                const std::vector<std::size_t>& columns) {
  std::vector<float> targets;
  for (const std::size_t column : columns) {
    const std::string& cell = row.cells[column];
    if (!is_zero(cell) && !is_one(cell) && !is_unknown(cell)) {
      fail_at(path, row.line,
              concat("the cell '", escaped(cell), "' of the label '", header[column],
                     "' is not 0, 1 or empty (unknown)",
                     is_minus_one(cell) ? "; give data.csv.uncertain: ignore (unknown), 0 or 1 for "
                                          "what -1 counts as"
                                        : ""));
    }
    targets.push_back(is_one(cell)    ? 1.0f
                      : is_zero(cell) ? 0.0f
                                      : std::numeric_limits<float>::quiet_NaN());
  }
  return targets;
}

// Returns the path of an image. If no file has this name, backslashes separate folders.
fs::path locate_image(const fs::path& folder, const std::string& image) {
  if (image.find('\\') == std::string::npos) return folder / image;
  if (path_exists(folder / image)) return folder / image;
  std::string with_slashes = image;
  std::ranges::replace(with_slashes, '\\', '/');
  return folder / with_slashes;
}

// Parses a finite number of at least 0.
float parse_weight(const std::string& path, int line, const std::string& cell) {
  float weight = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), weight);
  if (error == std::errc() && end == cell.data() + cell.size() && std::isfinite(weight) &&
      weight >= 0) {
    return weight;
  }
  fail_at(path, line, concat("the weight '", cell, "' is not a number of at least 0"));
}

}  // namespace

void fail_at(const std::string& path, int line, const std::string& message) {
  throw DataError(concat(path, ':', line), message);
}

CsvList read_csv(const std::string& path, const config::Data& data,
                 const std::vector<std::string>& label_columns) {
  const config::Csv& csv = data.csv;
  const fs::path folder = csv.root.empty() ? fs::path(path).parent_path() : fs::path(csv.root);
  std::vector<CsvLine> lines = read_csv_lines(path, csv.separator);
  CsvList list;
  if (lines.empty()) throw DataError(path, "holds no path,label line");
  if (csv.uncertain) resolve_uncertain(lines, *csv.uncertain, data.group_by);
  const Columns columns = find_columns(path, lines, folder, data, label_columns);
  list.has_groups = columns.group.has_value();
  if (!list.has_groups) {
    list.missing_groups = describe_missing_groups(path, lines[0], data.group_by);
  }
  list.has_several_labels = columns.has_several_labels;
  for (const std::size_t column : columns.one_hot) list.classes.push_back(lines[0].cells[column]);
  for (const std::size_t column : columns.zeros) list.zeros.push_back(lines[0].cells[column]);
  for (std::size_t i = columns.has_names ? 1 : 0; i < lines.size(); ++i) {
    const Cells& cells = lines[i].cells;
    const int line = lines[i].line;
    if (cells.size() != columns.count) {
      fail_at(path, line,
              concat("has ", cells.size(), " fields; expected ",
                     columns.count == 2 && !columns.has_names
                         ? "path,label"
                         : concat(columns.count, ", as the first line has")));
    }
    std::string image = cells[columns.image];
    if (image.empty()) fail_at(path, line, "has no path");
    // The system would take the part before a NUL byte for the whole path.
    if (image.find('\0') != std::string::npos) {
      fail_at(path, line, concat("the path '", escaped(image), "' holds a NUL byte; remove it"));
    }
    std::string label;
    if (!columns.has_several_labels) {
      label = columns.one_hot.empty()
                  ? cells[columns.label]
                  : find_one_hot_label(path, lines[i], lines[0].cells, columns.one_hot);
      if (label.empty()) fail_at(path, line, "has no label");
    }
    if (!image.ends_with(csv.ending)) image += csv.ending;
    list.rows.push_back({locate_image(folder, image).string(), label, line});
    if (columns.group) list.rows.back().group = cells[*columns.group];
    if (columns.has_several_labels && columns.one_hot.empty()) {
      list.rows.back().labels = split_label(cells[columns.label], csv.label_separator[0]);
    } else if (columns.has_several_labels) {
      list.rows.back().targets = read_targets(path, lines[i], lines[0].cells, columns.one_hot);
    }
    if (!columns.weight) continue;
    list.rows.back().has_weight = true;
    list.rows.back().weight = parse_weight(path, line, cells[*columns.weight]);
  }
  if (list.rows.empty()) throw DataError(path, "holds no path,label line");
  return list;
}

std::vector<std::string> read_image_names(const std::string& path, const config::Csv& csv) {
  const std::vector<CsvLine> lines = read_csv_lines(path, csv.separator);
  if (lines.empty()) throw DataError(path, "names no images");
  const Cells& first = lines[0].cells;
  const fs::path folder = fs::path(path).parent_path();
  const auto complete = [&](std::string name) {
    return name.ends_with(csv.ending) ? name : name + csv.ending;
  };
  const auto is_image = [&](const std::string& cell) {
    return ends_like_image(cell) || is_file(folder / complete(cell));
  };
  auto column = std::ranges::find(first, csv.image_column);
  if (column == first.end()) {
    column = std::ranges::find_if(
        first, [](const std::string& name) { return contains(kImageColumns, to_lower(name)); });
  }
  const bool has_header = column != first.end();
  if (!has_header) column = std::ranges::find_if(first, is_image);
  if (column == first.end()) {
    fail_at(path, lines[0].line,
            concat("names no image file, and no column has a usual name such as path or image; "
                   "the columns are ",
                   join_first(first, 12)));
  }
  const std::size_t place = column - first.begin();
  std::vector<std::string> names;
  for (const CsvLine& line : std::span(lines).subspan(has_header ? 1 : 0)) {
    if (line.cells.size() <= place || line.cells[place].empty()) {
      fail_at(path, line.line, "has no path");
    }
    names.push_back(locate_image(folder, complete(line.cells[place])).string());
  }
  if (names.empty()) throw DataError(path, "names no images");
  return names;
}

}  // namespace trainer::data
