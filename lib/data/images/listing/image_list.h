// Which image files a split has, and the class of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/decode/image_file.h"

namespace trainer::data {

struct ListedFile {
  std::string path;
  std::int32_t label = 0;
  float weight = 1;
  // Of a file that holds many images: where this one lies, and what it is called.
  std::int64_t offset = 0, bytes = -1;
  std::string name = {};

  StoredImage stored() const { return {path, offset, bytes}; }
  std::string describe() const { return name.empty() ? path : path + ": " + name; }
};
struct ImageList {
  std::string source;  // the folder, glob, csv or shards, for messages
  std::vector<ListedFile> files;
  std::vector<std::string> notes;  // what was left aside, and why
  // The notes that training prints as warnings: classes without a folder, classes with similar
  // names, and image files that lie in no folder of a class or cannot be opened.
  std::vector<std::string> left_aside = {};
  std::vector<int> lines = {};  // of a csv, by file
  bool has_weights = false;     // whether a csv gave them
};

// The images of a csv or of shards with the texts of their classes, whose numbers are not set yet.
struct LabelledList {
  ImageList list;
  std::vector<std::string> labels;        // by file
  std::vector<std::string> classes = {};  // in the order of one-hot columns; empty without these

  // The place of a file in its csv or shard, for messages.
  std::string place(std::size_t file) const;
};

// Where the images of a split and the names of classes come from. A csv or shards are read once,
// whatever is asked. Both functions throw DataError.
class SplitImages {
 public:
  // `data` must outlive it.
  SplitImages(const config::Data& data, config::SplitFiles split);
  // data.classes, or the names of the folders of a folder, or the labels of a csv or of shards,
  // sorted.
  std::vector<std::string> class_names();
  // The files, sorted by path (csv: in the file's order). Throws when a class has no file, a folder
  // is no class, a csv line is wrong.
  ImageList list(const std::vector<std::string>& classes) &&;

 private:
  bool has_labels() const;
  const LabelledList& labelled();
  std::vector<std::string> find_class_names();
  [[noreturn]] void fail_with_long_name(const std::string& name);

  const config::Data& data_;
  config::SplitFiles split_;
  std::optional<LabelledList> labelled_;
};

// Adds a note for each folder in data.path that contains class folders and is not used.
void note_unused_folders(const config::Data& data, ImageList& list);
// Adds a note for each set of classes whose names a reader could take for the same name.
void note_similar_names(const std::vector<std::string>& classes, ImageList& list);

// Throws DataError naming the line of the csv whose file is not there. For a list as it was made.
void check_files_exist(const ImageList& list, const config::Csv& csv = {});

// Keeps `count` files, in their order, and as many of each class as its share of the list says, but
// at least one where `count` allows. Drawn at random: a function of the seed and the list. A larger
// count keeps the files of a smaller one, too.
void draw_files(ImageList& list, std::int64_t count, std::uint64_t seed);

// The files below a folder that are named like images, sorted; hidden ones are left out, and links
// to folders are not followed. `note`, unless null, becomes the line on such links, "" for none.
std::vector<std::string> images_below(const std::string& folder, std::string* note = nullptr);

}  // namespace trainer::data
