// The splits of a data set whose folders are named after them: Training and Testing, TRAIN and
// TEST, seg_train and seg_test. Taken as classes, such folders would train to a perfect accuracy
// without any error.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "base/split.h"

namespace trainer::data {

// Returns whether a path leads to a folder, of the file system or in a zip archive: photos.zip,
// photos.zip/train. Throws DataError for a damaged archive.
bool is_folder(const Path& path);
// Returns the folder in which the folders of splits or classes are searched: `folder` itself, or,
// in a zip archive, the folder that holds all others. Throws DataError for a damaged archive.
Path find_data_root(const Path& folder);

// Returns the words of a name, which consist of letters, in lower case. A capital after a small
// letter begins a word.
std::vector<std::string> words_in(std::string_view name);
// Returns the split that a name denotes: train or training; validation, val, valid or dev; test,
// testing or eval. The name matches in any case, alone or as a word of a longer name, as in
// seg_train, TrainImages or val2017. Returns nothing for other names and for names with words of
// two splits.
std::optional<Split> find_split_in_name(std::string_view name);

// Returns, by split, the name that denotes it best: "train" is preferred to "training", this to
// "Training", and this to "train_images". `source` begins messages. Throws DataError if two names
// denote a split equally well.
std::map<Split, std::string> choose_split_names(const std::string& source,
                                                const std::vector<std::string>& names);

struct SplitFolders {
  std::map<Split, Path> paths;     // empty if `folder` contains the classes themselves
  std::vector<std::string> notes;  // one line per folder with class folders that is not used
};
// Finds the folders in `folder` that are named after splits and contain class folders. Classes that
// are called test and control contain images directly and remain classes. A folder named in
// `classes` is a class. Reads names of folders and files only. Throws DataError if splits can be
// recognized, but not the training split, or not which folder is which.
SplitFolders find_split_folders(const Path& folder, const std::vector<std::string>& classes = {});

// Returns the classes: the names of the folders in `folder` that contain images at any depth,
// sorted. Throws DataError if the folders look like splits of a data set rather than like classes.
// Names without a word of a split cannot be recognized, but two folders that contain folders of the
// same name look like splits.
std::vector<std::string> find_class_folders(const Path& folder);

}  // namespace trainer::data
