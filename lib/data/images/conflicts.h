// Photos that a split has in several classes. A photo in two splits is a leak, which `data`
// reports.
#pragma once

#include <string>
#include <vector>

#include "data/images/listing/image_list.h"

namespace trainer::data {

// Leaves files out of the list as data.on_conflict asks, and adds a note with their number. Two
// files are the same photo if their bytes are equal. Pixels are not compared, because decoding all
// files would cost an epoch, and a recompressed copy is a question of similarity. Reads only the
// files whose size a file of another class has; a file that cannot be read is kept. Does nothing
// for `keep`. Throws DataError if a class that has files would keep none.
void resolve_conflicts(const config::Data& data, const std::vector<std::string>& classes,
                       ImageList& list);

// Returns a line with the number of photos of a list that are in several classes; "" for none.
// Reads a part of the files whose size a file of another class has, and wholly only those whose
// part is the same, too.
std::string describe_conflicts(const config::Data& data, const std::vector<std::string>& classes,
                               const ImageList& list);

}  // namespace trainer::data
