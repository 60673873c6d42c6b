// A starting config for images with classes: what `trainer new` writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "config/config.h"

namespace trainer::commands {

// The images of a folder, a zip archive or a list (CSV).
struct ImageSource {
  struct SplitImages {
    // A folder with one folder per class, also in a zip archive, or a list; empty: there is no such
    // split.
    Path path;
    std::vector<std::int64_t> counts;  // images by class
    std::int64_t size() const;
  };
  Path path;
  bool is_list = false;
  config::Csv csv;                   // the settings by which the list is read
  std::vector<std::string> classes;  // sorted
  SplitImages train, validation, test;
  std::vector<std::string> notes;      // lines about folders that are not used
  std::int64_t height = 0, width = 0;  // the median of some of the images
  bool is_grey = false;                // true if all of these are grey
  std::string group_by, groups;        // data.group_by and what it finds; "" without groups
};
// `source` is a folder that contains a folder per class, or folders named after the splits (see
// data/split_folders.h) with a folder per class each; a zip archive of such folders, or a folder in
// one; or a list of images and classes, as data.format: csv reads it with `csv`. Throws a DataError
// that states what is wrong.
ImageSource look_at(const Path& source, const config::Csv& csv = {});
// Sets data.group_by. Throws ConfigError for a wrong pattern, and if no training image has a group.
void set_groups(ImageSource& images, const std::string& group_by);

// A file of weights for a backbone, which is empty when none was found.
struct FoundWeights {
  std::string backbone;
  std::string name = {};  // timm/vit_small_patch16_224.augreg_in21k_ft_in1k; "" for a Keras file
  std::int64_t image_side = 0;  // the height and width that images get
  Path file;
  std::vector<Path> searched;  // folders, those that do not exist too
};
// Looks for weights of any backbone, in the order of list_backbones_by_accuracy(): for those of
// `imagenet` in config::weight_folders() and in weights beside the data, and for those of
// config::weight_table() where config::find_named_file() does. Those of `wanted` are looked for
// where config::find_imagenet_weights() does and beside the data.
// Throws DataError, saying how to get it, when a wanted file is in none of them.
FoundWeights find_weights(const Path& data, const config::Environment& environment, bool on_cpu,
                          std::optional<config::Backbone::Name> wanted = {});

// Returns the config as YAML with comments. `wanted` is that of find_weights().
std::string make_config(const ImageSource& images, const FoundWeights& weights,
                        std::optional<config::Backbone::Name> wanted = {});

// Returns whether make_config() wrote the text without pretrained weights.
bool is_without_weights(const std::string& text);

}  // namespace trainer::commands
