// A save writes the new file, syncs and renames it, syncs the folder, and then removes old files,
// so that a kill at any moment leaves a complete set.
#include "checkpoint/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/system_error.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"

namespace trainer::checkpoint {
namespace {

constexpr const char* kBest = "best.safetensors";

Path make_path(const Path& folder, std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof name, "step-%08lld.safetensors", static_cast<long long>(step));
  return folder / name;
}

// Returns the step in "step-00000100.safetensors"; nothing for other names.
std::optional<std::int64_t> parse_step(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  constexpr std::string_view kSuffix = ".safetensors";
  if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix)) {
    return {};
  }
  return parse_integer(
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
}

// Returns an empty list if the folder does not exist. Throws for a folder that cannot be listed: if
// it counted as empty, a new run would remove the checkpoints of the old one.
std::vector<Saved> list_folder(const Path& folder) {
  std::vector<Saved> saved;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (const auto step = parse_step(it->path().filename().string())) {
      saved.push_back({it->path(), *step});
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw DataError(folder, "cannot list the checkpoints: " + describe_system_error(error.value()));
  }
  std::ranges::sort(saved, {}, &Saved::step);
  return saved;
}

// Returns nothing if the file does not exist any more. A file that cannot be opened may be
// undamaged, so that the error is not a DataError, after which an older checkpoint would be used.
std::optional<TensorFile> read_if_there(const Saved& saved) {
  if (!Descriptor(::open(saved.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))) {
    if (errno == ENOENT) return {};
    throw Error(kExitData, printable(saved.path.string()),
                ": cannot open: ", describe_system_error(errno));
  }
  TensorFile file = read_checkpoint(saved.path);
  const auto step = file.metadata.find("step");
  if (step != file.metadata.end() && step->second != std::to_string(saved.step)) {
    throw DataError(saved.path, "holds step " + step->second + ": its name is not its own");
  }
  return file;
}

std::optional<TensorFile> load_newest(const Path& folder, std::vector<std::string>& warnings) {
  // A run that still trains may remove a file after it was listed; then there is a newer one.
  for (int attempt = 0; attempt < 3; ++attempt) {
    bool vanished = false;
    const std::vector<Saved> saved = list_folder(folder);
    for (auto it = saved.rbegin(); it != saved.rend(); ++it) {
      try {
        if (auto file = read_if_there(*it)) return file;
        vanished = true;
      } catch (const DataError& error) {
        if (std::filesystem::exists(it->path)) {
          warnings.push_back(concat(error.what(), "; trying the checkpoint before it"));
        } else {
          vanished = true;
        }
      }
    }
    if (!vanished) break;
  }
  return {};
}

void remove_file(const Path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) throw DataError(path, "cannot remove this old checkpoint: " + error.message());
}

}  // namespace

Store::Store(Path folder, std::int64_t keep, Progress progress)
    : folder_(std::move(folder)),
      keep_(std::max<std::int64_t>(1, keep)),
      progress_(std::move(progress)) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw DataError(folder_, "cannot create: " + describe_system_error(error.value()));
  remove_leftovers(folder_);
  open_folder_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!open_folder_) throw DataError(folder_, "cannot open: ", describe_system_error(errno));
}

void Store::check_in_place() const {
  struct stat held {
  }, named{};
  if (::fstat(open_folder_.get(), &held) == 0 && ::stat(folder_.c_str(), &named) == 0 &&
      held.st_dev == named.st_dev && held.st_ino == named.st_ino) {
    return;
  }
  throw DataError(folder_,
                  "was moved, removed or replaced while the run went on, which ends without "
                  "another checkpoint; if it was moved, resume it with --run-dir where it is now");
}

Path Store::save(std::int64_t step, const std::vector<Tensor>& tensors, const Metadata& metadata) {
  check_in_place();
  const Path path = make_path(folder_, step);
  const ActivityScope scope(progress_, Activity::kSave);
  write_safetensors(path, tensors, metadata, progress_);
  // The run was resumed before later steps, so that their checkpoints do not belong to it any more.
  std::vector<Saved> saved = list();
  while (!saved.empty() && saved.back().step > step) {
    remove_file(saved.back().path);
    saved.pop_back();
  }
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < saved.size(); ++i) {
    remove_file(saved[i].path);
  }
  return path;
}

Path Store::best_path() const { return folder_ / kBest; }

void Store::mark_best(std::int64_t step) {
  check_in_place();
  const Path path = make_path(folder_, step);
  if (!std::filesystem::exists(path)) {
    throw DataError(path, "no such checkpoint, so it cannot be kept as the best");
  }
  const Path temporary = folder_ / concat(kBest, ".tmp.", ::getpid());
  std::error_code error;
  std::filesystem::remove(temporary, error);
  std::filesystem::create_hard_link(path, temporary, error);
  if (error) {  // not every file system has links
    std::filesystem::copy_file(path, temporary, error);
    if (error) throw DataError(temporary, "cannot copy the best checkpoint: " + error.message());
    sync_path(temporary);
  }
  std::filesystem::rename(temporary, folder_ / kBest, error);
  if (error) throw DataError(folder_ / kBest, "cannot rename into place: " + error.message());
  // Renaming a link over another link of the same file does nothing, not even remove the old name.
  std::filesystem::remove(temporary, error);
  sync_path(folder_);
}

std::vector<Saved> Store::list() const { return list_folder(folder_); }

std::vector<Saved> list_checkpoints(const Path& folder) { return list_folder(folder); }

std::optional<TensorFile> Store::load_latest(std::vector<std::string>& warnings) const {
  return load_newest(folder_, warnings);
}

Path find_weight_file(const Path& run_or_file) {
  const Path folder = run_or_file / "checkpoints";
  if (!std::filesystem::is_directory(folder)) return run_or_file;
  if (Path best = folder / kBest; std::filesystem::exists(best)) return best;
  const std::vector<Saved> saved = list_checkpoints(folder);
  if (saved.empty()) throw DataError(run_or_file, "is a run folder without a checkpoint");
  return saved.back().path;
}

Path find_checkpoints(const Path& run) {
  if (!std::filesystem::exists(run)) {
    throw DataError(run,
                    "no such file or folder; expected a run folder or a checkpoint (.safetensors)");
  }
  const Path inner = run / "checkpoints";
  return std::filesystem::is_directory(inner) ? inner : run;
}

TensorFile load_best(const Path& run_or_file) {
  const Path folder = find_checkpoints(run_or_file);
  if (!std::filesystem::is_directory(folder)) return read_checkpoint(run_or_file);
  if (!std::filesystem::exists(folder / kBest)) {
    throw DataError(folder / kBest,
                    "no such file: this run has kept no best checkpoint (set run.best), or was "
                    "not evaluated yet");
  }
  return read_checkpoint(folder / kBest);
}

TensorFile load_last(const Path& run_or_file, std::vector<std::string>& warnings) {
  const Path folder = find_checkpoints(run_or_file);
  if (!std::filesystem::is_directory(folder)) return read_checkpoint(run_or_file);
  if (auto file = load_newest(folder, warnings)) return std::move(*file);
  std::string message = "holds no whole checkpoint; expected checkpoints/step-*.safetensors";
  for (const std::string& warning : warnings) message += "\n  " + warning;
  throw DataError(run_or_file, Controls::kLines, message);
}

}  // namespace trainer::checkpoint
