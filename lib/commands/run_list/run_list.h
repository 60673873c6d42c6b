// `runs`: the runs in a folder with their states and results, and the removal of their old
// checkpoints.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "commands/context/context.h"
#include "results/field.h"

namespace trainer::commands {

// The best value of a run, or the value of its end if the run keeps no best checkpoint.
struct RunValue {
  std::string metric;  // "validation/accuracy"
  double value = 0;
  std::int64_t step = 0;
  bool is_best = false;  // false: of the last checkpoint
};

struct RunRow {
  Path folder;
  std::string name;
  std::string started;      // the first session's start, in UTC: "2026-11-27T00:06:12Z"; or ""
  std::string state;        // "running", "done", "early stop", ..., "not finished" or "damaged"
  std::string error;        // the reason why the run is damaged
  double wall_seconds = 0;  // the sum over all sessions
  std::optional<RunValue> value;
  std::string data;  // the path of the training data, else the format of the data
  std::int64_t training_samples = 0;
  std::string device;                 // as in run.json
  std::int64_t checkpoint_bytes = 0;  // on the disk
};

// Returns the runs in the folders and up to three levels below them, the oldest first. A folder
// that is a run stands for itself; links are not followed. A run that cannot be read is a row with
// the state "damaged". Throws DataError for a folder that does not exist.
std::vector<RunRow> list_runs(const std::vector<Path>& folders);

// Prints a table of at most `columns` characters per line if it is that narrow without the size of
// the checkpoints, the device and the data; nothing: of any width.
void print_runs(const std::vector<RunRow>& runs, std::optional<int> columns, std::ostream& out);
// What `runs --json` prints.
struct RunList {
  std::vector<RunRow> runs;
};
void fields(results::FieldVisitor& v, RunList& list);

// The checkpoints of a run that are not needed to use or to continue it.
struct OldCheckpoints {
  Path folder;              // the run's folder
  bool is_dry_run = false;  // nothing is removed
  std::vector<Path> files;  // all but the newest and best.safetensors
  std::int64_t bytes = 0;   // bytes that their removal frees
  std::string skipped;      // why nothing is removed: the run is in use, or its newest is damaged
};
void fields(results::FieldVisitor& v, OldCheckpoints& old);
enum class CleanMode { kRemove, kDryRun };
// Removes the old checkpoints of the runs, or only lists them. Reads the newest of each run first,
// and holds the lock of a run while it removes them.
std::vector<OldCheckpoints> clean_runs(const std::vector<RunRow>& runs, CleanMode mode);

void print_cleaned(const std::vector<OldCheckpoints>& cleaned, CleanMode mode, std::ostream& out);

struct RunsArguments {
  std::vector<Path> folders;  // `runs` if it exists when empty
  bool clean = false;         // removes old checkpoints
  bool dry_run = false;       // only lists what would be removed
  bool json = false;
};
int execute(const RunsArguments& arguments, const Context& context);

}  // namespace trainer::commands
