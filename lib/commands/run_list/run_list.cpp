#include "commands/run_list/run_list.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "checkpoint/lock.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "results/run_files/data_name.h"
#include "results/run_files/run_files.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxRunDepth = 3;  // a point of a sweep in a folder of projects
constexpr double kBytesPerMegabyte = 1e6;

// Adds the runs in a folder and below it. Folders that cannot be read are left out.
void find_runs(const Path& folder, int depth, std::vector<Path>& found) {
  std::error_code error;
  if (fs::exists(folder / "run.json", error)) {
    found.push_back(folder);
    return;
  }
  if (depth == kMaxRunDepth) return;
  std::vector<Path> children;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) {
      children.push_back(entry->path());
    }
  }
  std::ranges::sort(children);
  for (const Path& child : children) find_runs(child, depth + 1, found);
}

std::optional<RunValue> find_run_value(const results::RunFiles& run) {
  if (run.best) return RunValue{run.best->metric, run.best->value, run.best->step, true};
  const std::optional<Split> split = results::scored_split(run);
  if (!split) return std::nullopt;
  const results::SplitResult& result = run.results.at(*split);
  const bool has_accuracy = std::isfinite(result.accuracy);
  return RunValue{concat(to_string(*split), has_accuracy ? "/accuracy" : "/loss"),
                  has_accuracy ? result.accuracy : result.loss, run.finished->steps, false};
}

// Returns the checkpoints that take up space on the disk, without second names of one file.
std::int64_t measure_checkpoints(const Path& run) {
  std::int64_t bytes = 0;
  std::vector<Path> seen;
  std::error_code error;
  for (fs::directory_iterator entry(run / "checkpoints", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code failed;
    if (!entry->is_regular_file(failed)) continue;
    const bool is_known = std::ranges::any_of(
        seen, [&](const Path& path) { return fs::equivalent(path, entry->path(), failed); });
    if (is_known) continue;
    const auto size = entry->file_size(failed);
    if (failed) continue;  // it was removed in the meantime
    bytes += static_cast<std::int64_t>(size);
    seen.push_back(entry->path());
  }
  return bytes;
}

RunRow read_row(const Path& folder) {
  RunRow row;
  row.folder = folder;
  row.checkpoint_bytes = measure_checkpoints(folder);
  try {
    const results::RunFiles run = results::read_run(folder);
    row.started = run.started;
    row.name = run.name;
    row.state = checkpoint::is_in_use(folder) ? "running"
                : run.finished                ? run.finished->reason
                                              : "not finished";
    row.wall_seconds = run.wall_seconds;
    row.value = find_run_value(run);
    row.data = results::find_data_name(run.config);
    for (const auto& [name, size] : run.splits) {
      if (name == to_string(Split::kTrain)) row.training_samples = size.samples;
    }
    row.device = run.device;
  } catch (const Error& error) {
    row.state = "damaged";
    row.error = error.what();
  }
  return row;
}

// "cpu" of "cpu, 2 lanes x 1 thread, ...", and "GPU 0 NVIDIA ..." of "cuda, GPU 0 NVIDIA ..., ...".
std::string shorten_device(std::string device) {
  constexpr std::string_view kCuda = "cuda, ";
  if (device.starts_with(kCuda)) device.erase(0, kCuda.size());
  return device.substr(0, device.find(','));
}

// "2026-11-27 00:06" of "2026-11-27T00:06:12Z".
std::string shorten_time(const std::string& time) {
  constexpr std::size_t kMinutesEnd = 16, kLetterT = 10;
  if (time.size() <= kMinutesEnd) return time;
  std::string shortened = time.substr(0, kMinutesEnd);
  if (shortened[kLetterT] == 'T') shortened[kLetterT] = ' ';
  return shortened;
}

std::string format_megabytes(std::int64_t bytes) {
  return fixed(static_cast<double>(bytes) / kBytesPerMegabyte, 1);
}

std::string describe_value(const RunRow& row) {
  if (!row.value) return "";
  return concat(printable(row.value->metric), ' ', fixed(row.value->value, 4),
                row.value->is_best ? "" : " (last)");
}

std::string describe_data(const RunRow& row) {
  return row.training_samples > 0 ? concat(row.data, " (", row.training_samples, ")") : row.data;
}

void remove_old(OldCheckpoints& old) {
  try {
    const checkpoint::RunLock lock(old.folder);
    for (const Path& file : old.files) {
      std::error_code error;
      fs::remove(file, error);
      if (error) throw DataError(file, "cannot be removed: ", error.message());
    }
  } catch (const Error& error) {
    old.skipped = error.what();
  }
}

}  // namespace

std::vector<RunRow> list_runs(const std::vector<Path>& folders) {
  std::vector<Path> found;
  for (const Path& folder : folders) {
    if (!fs::is_directory(folder)) {
      throw DataError(folder,
                      "is not a folder; expected one with runs, as `trainer train` writes "
                      "them into `runs`");
    }
    find_runs(folder, 0, found);
  }
  std::vector<RunRow> rows;
  std::set<Path> seen;
  for (const Path& folder : found) {
    if (seen.insert(fs::weakly_canonical(folder)).second) rows.push_back(read_row(folder));
  }
  std::ranges::stable_sort(rows, {}, &RunRow::started);
  return rows;
}

void print_runs(const std::vector<RunRow>& runs, std::optional<int> columns, std::ostream& out) {
  if (runs.empty()) {
    out << "no runs; `trainer train photos/` writes one into runs/photos\n";
    return;
  }
  constexpr std::size_t kMinCells = 4;  // the run, its start, state and value
  Table table({"run", "started (UTC)", "state", "best value", "data (images)", "device", "MB"},
              {6});
  for (const RunRow& run : runs) {
    table.add({printable(run.folder.string()), shorten_time(run.started), run.state,
               describe_value(run), describe_data(run), shorten_device(run.device),
               format_megabytes(run.checkpoint_bytes)});
  }
  table.fit_columns(columns, kMinCells);
  table.print(out);
  for (const RunRow& run : runs) {
    if (!run.error.empty()) out << "damaged: " << printable(run.error) << '\n';
  }
}

void fields(results::FieldVisitor& v, RunValue& value) {
  v("metric", value.metric, "Split and metric.");
  v("value", value.value, "The value of the metric.");
  v("step", value.step, results::kSteps, "The step of the checkpoint.");
  v.derived("checkpoint", std::string(value.is_best ? "best" : "last"),
            "The checkpoint of the value: best or last.");
}

void fields(results::FieldVisitor& v, RunRow& row) {
  v.derived("folder", row.folder.string(), "The run folder.");
  v("name", row.name, "The name of the run.");
  v("started", row.started, "The start of the first session, in UTC.");
  v("state", row.state, "Whether the run goes on, or how it ended.");
  v("seconds", row.wall_seconds, results::kSeconds, "Time of all sessions.");
  v("best", row.value, "The best value, or that of the end; null without one.");
  v("data", row.data, "Path or format of the training data.");
  v("training_samples", row.training_samples, results::kSamples, "Samples of the training split.");
  v("device", row.device, "The device that trained it.");
  v("checkpoint_bytes", row.checkpoint_bytes, results::kBytes, "Size of its checkpoints.");
  v.when_present("error", row.error, "Why the run cannot be read.");
}

void fields(results::FieldVisitor& v, RunList& list) {
  v.event("runs");
  v("runs", list.runs, "The runs, the oldest first.");
}

void fields(results::FieldVisitor& v, OldCheckpoints& old) {
  std::vector<std::string> files(old.files.begin(), old.files.end());
  v.event("cleaned");
  v.derived("folder", old.folder.string(), "The run folder.");
  v("dry_run", old.is_dry_run, "Whether the files are only listed.");
  v.derived("files", files, "The old checkpoints.");
  v("bytes", old.bytes, results::kBytes, "What their removal frees.");
  v.when_present("skipped", old.skipped, "Why nothing is removed.");
}

std::vector<OldCheckpoints> clean_runs(const std::vector<RunRow>& runs, CleanMode mode) {
  std::vector<OldCheckpoints> cleaned;
  for (const RunRow& run : runs) {
    OldCheckpoints& old = cleaned.emplace_back();
    old.folder = run.folder;
    old.is_dry_run = mode == CleanMode::kDryRun;
    if (checkpoint::is_in_use(run.folder)) {
      old.skipped = concat(printable(run.folder.string()), ": a process trains in this run");
      continue;
    }
    const Path checkpoints = run.folder / "checkpoints";
    if (fs::is_symlink(checkpoints)) {
      old.skipped = concat(printable(checkpoints.string()),
                           ": is a link inside a run folder, and the checkpoints of the run that "
                           "it points to would be removed; clean that run, or remove the link");
      continue;
    }
    std::vector<checkpoint::Saved> saved = checkpoint::list_checkpoints(checkpoints);
    if (saved.size() < 2) continue;
    // A run whose newest checkpoint is damaged goes on from an older one.
    try {
      checkpoint::read_checkpoint(saved.back().path);
    } catch (const Error& error) {
      old.skipped = concat(error.what(), "; the older checkpoints are needed in its place");
      continue;
    }
    saved.pop_back();
    for (const checkpoint::Saved& file : saved) {
      std::error_code error;
      // A second name of the best checkpoint frees nothing.
      if (fs::hard_link_count(file.path, error) == 1 && !error) {
        const auto size = fs::file_size(file.path, error);
        if (!error) old.bytes += static_cast<std::int64_t>(size);
      }
      old.files.push_back(file.path);
    }
    if (mode == CleanMode::kRemove) remove_old(old);
  }
  return cleaned;
}

void print_cleaned(const std::vector<OldCheckpoints>& cleaned, CleanMode mode, std::ostream& out) {
  const char* const verb = mode == CleanMode::kRemove ? "removed " : "would remove ";
  std::int64_t bytes = 0;
  std::size_t files = 0;
  for (const OldCheckpoints& old : cleaned) {
    if (!old.skipped.empty()) {
      out << "left as it is: " << printable(old.skipped) << '\n';
      continue;
    }
    if (old.files.empty()) continue;
    bytes += old.bytes;
    files += old.files.size();
    out << printable(old.folder.string()) << ": " << verb << old.files.size() << " checkpoint(s), "
        << format_megabytes(old.bytes) << " MB\n";
  }
  out << verb << files << " checkpoint(s) of " << cleaned.size() << " run(s), "
      << format_megabytes(bytes) << " MB; the newest and the best of each run stay\n";
}

int execute(const RunsArguments& arguments, const Context& context) {
  // A user who has not trained yet has no folder `runs`; one that is named must exist.
  std::vector<Path> folders = arguments.folders;
  if (folders.empty() && std::filesystem::is_directory("runs")) folders.emplace_back("runs");
  const std::vector<RunRow> rows = list_runs(folders);
  if (!arguments.clean) {
    if (arguments.json) {
      results::print_json(RunList{rows}, context.out);
    } else {
      print_runs(rows, context.terminal_width(), context.out);
    }
    return kExitOk;
  }
  const auto mode = arguments.dry_run ? CleanMode::kDryRun : CleanMode::kRemove;
  const std::vector<OldCheckpoints> cleaned = clean_runs(rows, mode);
  if (!arguments.json) {
    print_cleaned(cleaned, mode, context.out);
    return kExitOk;
  }
  for (const OldCheckpoints& old : cleaned) results::print_json(old, context.out);
  return kExitOk;
}

}  // namespace trainer::commands
