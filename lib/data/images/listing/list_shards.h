// The images of a split that lie in shards.
#pragma once

#include <string>
#include <vector>

#include "data/images/listing/image_list.h"

namespace trainer::data {

bool holds_shards(const config::Data& data);
// As class_names() and list_images(): of all shards of the split, in the order of the files' names.
std::vector<std::string> shard_classes(const config::Data& data, const config::Split& split);
ImageList list_shards(const config::Data& data, const config::Split& split,
                      const std::vector<std::string>& classes);

}  // namespace trainer::data
