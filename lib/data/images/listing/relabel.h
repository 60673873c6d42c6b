// Corrected labels of images: the file data.relabel.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/files/files.h"
#include "base/split.h"
#include "config/config.h"
#include "data/images/listing/image_list.h"
#include "data/relabel_counts.h"

namespace trainer::data {

// A csv file with a header that has the columns path and label. Other columns are not used. A row
// names an image as describe() of its ListedFile does, by an absolute path, or by a path from
// data.path, from the folder of its split or from the root of a csv list. Backslashes may separate
// folders, and csv.ending may be left out.
class Relabel {
 public:
  // Reads the file; without data.relabel all functions do nothing. `data` must outlive it. Throws
  // DataError.
  explicit Relabel(const config::Data& data);

  // Gives the images of a split that rows name the labels of these rows, and removes those whose
  // label is empty. Throws DataError for a label that is not a class, for rows that give an image
  // different labels, for a row that names several images, and for a class that would keep no
  // training image. Throws ConfigError if images may have several labels.
  void apply(Split split, const std::vector<std::string>& classes, ImageList& list);
  // Throws DataError if a row names no image. Lists the splits for which apply() was not called.
  void check_rows(const std::vector<std::string>& classes);

  RelabelCounts counts() const { return counts_; }
  std::string describe() const { return counts_.describe(); }

 private:
  struct Row {
    std::string path, label;
    int line = 0;
    std::string image = {};  // the image that it names, as describe() gives it; "" before
  };
  using Rows = std::vector<std::size_t>;

  void read();
  // Adds the rows with this path.
  void add_rows(const std::string& path, Rows& rows) const;
  // Returns the rows that name an image of a split whose paths may count from `root`.
  Rows find_rows(const ListedFile& file, const Path& root) const;
  // Notes that a row names an image.
  void assign(Row& row, const ListedFile& file) const;

  const config::Data& data_;
  std::vector<Row> rows_;
  std::unordered_map<std::string, Rows> rows_by_path_;
  bool has_absolute_paths_ = false;
  std::set<Split> listed_;
  RelabelCounts counts_;
};

}  // namespace trainer::data
