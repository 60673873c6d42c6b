// The image files of a split, and the class of each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/progress.h"
#include "config/sections/data.h"
#include "data/decode/image_file.h"
#include "data/images/listing/label_sets.h"
#include "data/open.h"

namespace trainer::data {

struct ListedFile {
  std::string path;
  std::int32_t label = 0;  // a class, or the index of a set of labels: see ImageList::label_sets
  float weight = 1;
  // The place of this image in a file with many images, and its name; bytes < 0: a file of its own.
  std::int64_t offset = 0, bytes = -1;
  std::string name = {};
  std::string group = {};  // see Dataset::group_at()

  std::optional<ZipPacking> zip = {};  // set if `path` is a zip archive

  StoredImage stored() const {
    StoredImage image(path, offset, bytes);
    image.name = name;
    image.zip = zip;
    return image;
  }
  // Returns the bytes of the image; -1 for a file of its own.
  std::int64_t size() const { return zip ? zip->size : bytes; }
  std::string describe() const { return name.empty() ? path : path + ": " + name; }
};
struct ImageList {
  std::string source;  // the folder, glob, csv or shards, for messages
  std::vector<ListedFile> files;
  std::vector<std::string> notes;  // lines about entries that were left aside, with reasons
  // The notes that training prints as warnings: classes without a folder, classes with similar
  // names, image files that lie in no folder of a class or cannot be opened, and images in the
  // folder of a class inside that of another.
  std::vector<std::string> left_aside = {};
  std::vector<int> lines = {};      // the lines of a csv, indexed by file
  bool has_weights = false;         // true if a csv gave them
  bool has_groups = false;          // true if a column of a csv gave them
  std::string missing_groups = {};  // see CsvList
  // Null if each image has one class. Otherwise images have several labels, which label_name()
  // names.
  std::shared_ptr<const LabelSets> label_sets = {};

  // Returns the name of the class or the names of the labels of a file.
  std::string label_name(std::size_t file, const std::vector<std::string>& classes) const;
  // Adds a line to `notes` and to `left_aside`, unless it is empty.
  void note_left_aside(std::string line);
};

// The images of a csv or of shards with the texts of their classes, whose numbers are not set yet.
struct LabelledList {
  ImageList list;
  std::vector<std::string> labels;        // indexed by file
  std::vector<std::string> classes = {};  // the order of one-hot columns; empty without these
  // If images may have several labels, `labels` is empty. A csv gave these by file: the names of a
  // separated cell, or numbers in the order of `classes`.
  bool has_several_labels = false;
  std::vector<std::vector<std::string>> names = {};
  std::vector<std::vector<float>> targets = {};

  // The place of a file in its csv or shard, for messages.
  std::string place(std::size_t file) const;
  // Returns the `names` of all files, one after another.
  std::vector<std::string> join_names() const;
};

// Lists the images of a split and the names of classes. Reads a csv or shards once, for all
// functions. They throw DataError.
class SplitImages {
 public:
  // `data` must outlive it. `progress` advances with the files.
  SplitImages(const config::Data& data, config::SplitFiles split, Progress progress = {});
  // Returns data.classes, or the names of folders or labels in the order of data.class_order.
  std::vector<std::string> class_names();
  // Returns what decides the order of class_names(): "data.classes", "text", "number", or "columns"
  // for the columns of a list.
  std::string find_class_order();
  // Returns the files, sorted by path (csv: in the order of its lines). Throws if no class has a
  // file, a folder with images is not a class, or a line of a csv is wrong.
  ImageList list(const std::vector<std::string>& classes) &&;

 private:
  bool has_labels() const;
  const LabelledList& labelled();
  std::vector<std::string> find_class_names();
  std::vector<std::string> find_label_names();
  ImageList list_labelled(const std::vector<std::string>& classes);
  [[noreturn]] void fail_with_long_name(const std::string& name);

  const config::Data& data_;
  config::SplitFiles split_;
  Progress progress_;
  std::vector<std::string> label_columns_;  // names of a csv's columns; empty: to be found
  std::optional<LabelledList> labelled_;
};

// Adds a note for each folder in data.path that contains class folders and is not used.
void note_unused_folders(const config::Data& data, ImageList& list);
// Adds a note for each set of classes whose names a reader could take for the same name.
void note_similar_names(const std::vector<std::string>& classes, ImageList& list);

// Throws DataError if no file of a csv exists, and with data.on_error: fail if any file does not,
// with its line. The list must be as it was made.
void check_files_exist(const ImageList& list, const config::Data& data = {});

// Keeps `count` files in their order, of each class in proportion to its share of the list, but at
// least one where `count` allows. The choice is a function of the seed and the list. A larger count
// keeps the files of a smaller one, too.
void draw_files(ImageList& list, std::int64_t count, std::uint64_t seed);

}  // namespace trainer::data
