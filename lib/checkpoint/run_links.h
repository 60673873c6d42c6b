// Links inside a run folder, through which a command would write to a file elsewhere.
#pragma once

#include "base/files/files.h"

namespace trainer::checkpoint {

// Throws DataError naming the first link in a run or sweep folder. A folder that came from
// elsewhere may hold links that its reader does not expect, such as report.html -> ~/.profile.
// The folder itself, its folder `checkpoints`, which is only read, and what lies below a link may
// be anything.
void check_no_links(const Path& folder);

}  // namespace trainer::checkpoint
