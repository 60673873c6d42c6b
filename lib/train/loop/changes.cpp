#include "train/loop/changes.h"

#include "base/error.h"

namespace trainer::train {

Changes changes_between(const config::Config& before, const config::Config& now) {
  Changes changes;
  for (const config::Change& change : config::resume_changes(before, now)) {
    const bool error = change.severity == config::Change::Severity::kError;
    (error ? changes.errors : changes.warnings)
        .push_back(concat(change.key, " was ", change.before, ", is ", change.now));
  }
  return changes;
}

}  // namespace trainer::train
