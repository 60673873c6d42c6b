#include "checkpoint/run_links.h"

#include "base/error.h"

namespace trainer::checkpoint {

void check_no_links(const Path& folder) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(folder, error);
  for (const std::filesystem::recursive_directory_iterator end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_symlink()) {
      throw DataError(entry->path(),
                      "is a link inside a run folder, and the command would write to what it "
                      "points to; remove the link, or write elsewhere with --output");
    }
    if (entry.depth() == 0 && entry->path().filename() == "checkpoints") {
      entry.disable_recursion_pending();
    }
  }
}

}  // namespace trainer::checkpoint
