// The images of a split that lie in shards.
#pragma once

#include <string>
#include <vector>

#include "data/images/listing/image_list.h"

namespace trainer::data {

bool holds_shards(const config::Data& data);
// Of all shards of the split, in the order of the files' names. Throws DataError.
LabelledList list_shards(const config::Data& data, const config::SplitFiles& split);

}  // namespace trainer::data
