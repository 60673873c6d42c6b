#include "data/images/listing/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Cells = std::vector<std::string>;

// Names of columns in lists that people exchange, in lower case.
const Cells kImageColumns{"path",      "file",     "filename",   "file_name", "filepath",
                          "file_path", "image",    "image_path", "image_id",  "image_name",
                          "img",       "img_path", "id_code"};
const Cells kLabelColumns{"label",      "class",    "target",   "category", "diagnosis",
                          "class_name", "class_id", "label_id", "y"};
// Not "weight" alone, which may be a fact about what the image shows.
const Cells kWeightColumns{"sample_weight"};

bool contains(const Cells& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string lower(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

// Cuts a text into rows of cells.
class Cutter {
 public:
  Cutter(const std::string& path, const config::Csv& csv)
      : path_(path), text_(read_text_file(path)) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    separator_ = csv.separator.empty()    ? found_separator()
                 : csv.separator == "tab" ? '\t'
                                          : csv.separator[0];
  }

  bool done() const { return at_ >= text_.size(); }
  int line() const { return line_; }

  // A quoted field may hold separators, line ends and doubled quotes.
  Cells next() {
    Cells cells(1);
    const int start = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && cells.back().empty()) {
        quoted(cells.back(), start);
      } else if (c == separator_) {
        cells.emplace_back();
      } else if (c == '\n') {
        ++line_;
        break;
      } else if (c != '\r') {
        cells.back() += c;
      }
    }
    return cells;
  }

 private:
  // What the first line has most of.
  char found_separator() const {
    constexpr std::array<char, 3> kUsual{',', ';', '\t'};
    const std::string first = text_.substr(at_, text_.find('\n', at_) - at_);
    const auto count = [&](char c) { return std::count(first.begin(), first.end(), c); };
    return *std::max_element(kUsual.begin(), kUsual.end(),
                             [&](char a, char b) { return count(a) < count(b); });
  }

  void quoted(std::string& cell, int start) {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        cell += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell += text_[at_++];
      } else {
        ++at_;
        return;
      }
    }
    fail_at(path_, start, "has a quote that is not closed");
  }

  std::string path_, text_;
  std::size_t at_ = 0;
  int line_ = 1;
  char separator_ = ',';
};

struct Columns {
  std::size_t image = 0, label = 1, count = 2;
  bool has_names = false;  // the first row is a header
  std::optional<std::size_t> weight = {};
};

// The place of the column that is named, or has a usual name; `count` where there is none.
std::size_t find_column(const std::string& path, const Cells& header, const std::string& name,
                        const Cells& usual) {
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (name.empty() ? contains(usual, lower(header[i])) : header[i] == name) return i;
  }
  if (name.empty()) return header.size();
  fail_at(path, 1, concat("there is no column '", name, "'; the columns are ", join(header)));
}

Columns columns_of(const std::string& path, const Cells& first, const config::Csv& csv) {
  const bool named =
      !csv.image_column.empty() || !csv.label_column.empty() || !csv.weight_column.empty();
  const std::size_t image = find_column(path, first, csv.image_column, kImageColumns);
  const std::size_t label = find_column(path, first, csv.label_column, kLabelColumns);
  const std::size_t count = first.size();
  const std::size_t weight = find_column(path, first, csv.weight_column, kWeightColumns);
  if (image < count && label < count) {
    return {image, label, count, true,
            weight < count ? std::optional<std::size_t>(weight) : std::nullopt};
  }
  if (count == 2 && !named) {
    // One usual name beside a file's name is a class called so, not a header.
    return {0, 1, 2, false};
  }
  if (count == 1) {
    fail_at(path, 1, "has one field; expected path,label, or give data.csv: {separator: ...}");
  }
  fail_at(
      path, 1,
      concat("which of the columns ", join(first), " is the ", image < count ? "class" : "image",
             "? Say it with data.csv: {image_column: ", image < count ? first[image] : "NAME",
             ", label_column: ", label < count ? first[label] : "NAME", "}"));
}

// A finite number, at least 0.
float weight_in(const std::string& path, int line, const std::string& cell) {
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

std::vector<CsvRow> read_csv(const std::string& path, const config::Csv& csv) {
  const fs::path folder = csv.root.empty() ? fs::path(path).parent_path() : fs::path(csv.root);
  Cutter cutter(path, csv);
  std::vector<CsvRow> rows;
  std::optional<Columns> columns;
  while (!cutter.done()) {
    const int line = cutter.line();
    const Cells cells = cutter.next();
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (!columns) {
      columns = columns_of(path, cells, csv);
      if (columns->has_names) continue;
    }
    if (cells.size() != columns->count) {
      fail_at(path, line,
              concat("has ", cells.size(), " fields; expected ",
                     columns->count == 2 && !columns->has_names
                         ? "path,label"
                         : concat(columns->count, ", as the first line has")));
    }
    std::string image = cells[columns->image];
    const std::string& label = cells[columns->label];
    if (image.empty()) fail_at(path, line, "has no path");
    // The system would take the part before it for the whole path.
    if (image.find('\0') != std::string::npos) {
      fail_at(path, line, concat("the path '", escaped(image), "' holds a NUL byte; remove it"));
    }
    if (label.empty()) fail_at(path, line, "has no label");
    if (!image.ends_with(csv.ending)) image += csv.ending;
    rows.push_back({(folder / image).string(), label, line});
    if (!columns->weight) continue;
    rows.back().has_weight = true;
    rows.back().weight = weight_in(path, line, cells[*columns->weight]);
  }
  if (rows.empty()) throw DataError(path, "holds no path,label line");
  return rows;
}

}  // namespace trainer::data
