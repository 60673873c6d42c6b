// Finds where the files of a csv are that are not where it names them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/images/listing/image_list.h"

namespace trainer::data {

struct ImagePlace {
  std::filesystem::path folder;
  std::string ending;  // follows the names of the list; "" for none
};
// Returns where all these images of a list are: in `folder` or up to two levels below it, with
// their own or a usual ending; nothing if no place has all.
std::optional<ImagePlace> find_images_near(const std::filesystem::path& folder,
                                           const std::vector<std::string>& names);
// Returns the keys of data.csv that lead to a place from the folder `folder` of a list.
std::vector<std::string> describe_keys(const ImagePlace& place,
                                       const std::filesystem::path& folder);

// Returns a sentence if a csv has several files and none exists: how many there are, and the
// data.csv.root and data.csv.ending with which the first ones are found in the folder of the csv or
// those below it, if they are. Returns "" if a file exists, and for other lists.
std::string describe_missing_files(const ImageList& list, const config::Csv& csv);
// Returns the part of a message on the folder from which the paths of a csv count.
std::string csv_root_advice();

}  // namespace trainer::data
