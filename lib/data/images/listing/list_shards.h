// The images of a split in shards.
#pragma once

#include "base/process/progress.h"
#include "data/images/listing/image_list.h"

namespace trainer::data {

// Returns whether the format of the data is one of shards.
bool holds_shards(const config::Data& data);
// Lists the images of all shards of the split, in the order of the files' names. `progress`
// advances with the shards. Throws DataError.
LabelledList list_shards(const config::Data& data, const config::SplitFiles& split,
                         const Progress& progress);

}  // namespace trainer::data
