// Finds where the files of a csv are that are not where it names them.
#pragma once

#include <string>

#include "data/images/listing/image_list.h"

namespace trainer::data {

// Returns a sentence if a csv has several files and none exists: how many there are, and the
// data.csv.root and data.csv.ending with which the first ones are found in the folder of the csv or
// those below it, if they are. Returns "" if a file exists, and for other lists.
std::string describe_missing_files(const ImageList& list, const config::Csv& csv);
// Returns the part of a message on the folder from which the paths of a csv count.
std::string csv_root_advice();

}  // namespace trainer::data
