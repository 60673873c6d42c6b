#include "commands/devices/check_gpus.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/table.h"
#include "base/process/spawn.h"
#include "base/text.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kLimitVariable[] = "TRAINER_GPU_CHECK";
constexpr std::chrono::seconds kDefaultLimit(60);
constexpr char kGraphs[] = "TRAINER_CUDA_GRAPHS";

std::chrono::seconds read_limit(const Environment& environment) {
  const std::string text = read_variable(environment, kLimitVariable);
  if (text.empty()) return kDefaultLimit;
  const std::optional<std::int64_t> seconds = parse_integer(text);
  if (seconds && *seconds >= 0 && *seconds <= 86'400) return std::chrono::seconds(*seconds);
  throw ConfigError({}, concat(kLimitVariable, " is '", text,
                               "'; expected the seconds that a check of several GPUs may take, or "
                               "0 for no check"));
}

// The images are drawn in memory. The first dense layer has 2^18 weights, so that one sum of
// gradients has 1 MiB.
std::string make_config(const CheckedGpus& checked) {
  const auto count = static_cast<std::uint64_t>(checked.count);
  return concat(
      "model: {layers: [conv: {filters: 8, kernel_size: 3, activation: relu}, max_pool, flatten, ",
      "dense: {units: 194, activation: relu}, dense: 10]}\n",
      "data: {format: synthetic, synthetic: {train_samples: ", 32 * count, ", test_samples: 16}}\n",
      "optimizer: {sgd: {learning_rate: 0.01}}\n", "train: {batch_size: 8, max_steps: 20}\n",
      "parallel: {device: cuda, gpus: ", checked.gpus,
      ", lr_scaling: none, micro_batches: ", std::bit_ceil(count), "}\n");
}

// Returns the last error in the output of a process, or its last line.
std::string find_error(const Path& output) {
  std::string found;
  for (const std::string& line : split_lines(read_text_file(output))) {
    constexpr std::string_view kMark = "error: ";
    if (line.starts_with(kMark)) {
      found = line.substr(kMark.size());
    } else if (found.empty() && !line.empty()) {
      found = line;
    }
  }
  return found;
}

// Compares the GPUs in a process that ends within `limit` after `start`. Returns why they fail, or
// "".
std::string compare(const CheckedGpus& checked, const char* graphs, Environment environment,
                    const Path& folder, Clock::time_point start, std::chrono::seconds limit) {
  const Path config = folder / "check.yaml", output = folder / concat("output", graphs);
  write_file_atomic(config, make_config(checked));
  environment[kGraphs] = graphs;
  SpawnOptions child;
  child.command = {fs::read_symlink("/proc/self/exe").string(),
                   "verify",
                   "replicas",
                   config.string(),
                   "--replicas",
                   concat("1,", checked.count),
                   "--steps",
                   "20"};
  child.environment = std::move(environment);
  ::sigprocmask(SIG_SETMASK, nullptr, &child.signals);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  child.output = child.errors = file;
  const pid_t process = spawn(child);
  ::close(file);
  const std::optional<int> code = wait_or_kill(
      process, std::chrono::duration_cast<std::chrono::milliseconds>(start + limit - Clock::now()));
  if (!code) return concat("it had not ended after ", limit.count(), " s");
  if (*code == kExitOk) return "";
  if (*code == kExitCheck) return "their parameters differ from those of one GPU";
  return concat("it ended with code ", *code, ": ", find_error(output));
}

// Returns why the GPUs fail, or "".
std::string compare_twice(const CheckedGpus& checked, const Environment& environment,
                          std::chrono::seconds limit) {
  const TemporaryFolder folder;
  const Clock::time_point start = Clock::now();
  for (const char* graphs : {"1", "0"}) {
    if (read_variable(environment, kGraphs) == "0" && std::string_view(graphs) == "1") continue;
    const std::string why = compare(checked, graphs, environment, folder.path(), start, limit);
    if (why.empty()) continue;
    return concat("with ", kGraphs, "=", graphs, " ", why);
  }
  return "";
}

// The text in which a driver that is loaded names its release, also in containers; "" elsewhere.
std::string read_driver(const Path& folder) {
  const Path file = folder / "version";
  return path_exists(file) ? read_text_file(file) : "";
}

// Keeps that the check with this key has passed. Returns why that is not possible, or "".
std::string keep(const std::string& folder, const Path& file, const std::string& key) {
  if (folder.empty()) return "there is no folder for it, such as TRAINER_CUDA_PLAN_CACHE";
  try {
    fs::create_directories(folder);
    write_file_atomic(file, key);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string describe_checked(const CheckedGpus& checked, const backend::GpuLibraries& libraries,
                             const std::string& driver, const Environment& environment) {
  std::string text =
      concat(checked.gpus, " of\n", libraries.gpus, libraries.versions, '\n', driver, '\n');
  for (const auto& [name, value] : environment) {
    const bool counts = name == kGraphs || (name.starts_with("NCCL_") && name != "NCCL_DEBUG");
    if (counts) text += concat(name, '=', value, '\n');
  }
  return text;
}

void check_gpus(const CheckedGpus& checked, bool use_passed, const backend::Platform& platform,
                const Environment& environment, const Warn& warn) {
  std::chrono::seconds limit = read_limit(environment);
  if (limit.count() == 0 && use_passed) return;
  if (limit.count() == 0) limit = kDefaultLimit;
  if (checked.count > std::ssize(backend::list_gpus(platform).gpus)) return;
  const std::string key = describe_checked(checked, backend::find_gpu_libraries(platform, true),
                                           read_driver(platform.driver_folder), environment);
  const Path file = Path(platform.tuning_cache) / concat("gpus-", sha256(key), ".passed");
  if (use_passed && !platform.tuning_cache.empty() && path_exists(file)) return;
  warn(Notice::note(concat("checking ", checked.count, " GPUs, in at most ", limit.count(), " s")));
  const Clock::time_point start = Clock::now();
  const std::string why = compare_twice(checked, environment, limit);
  if (!why.empty()) {
    throw DeviceError(
        concat("the check of ", checked.count, " GPUs failed: ", why,
               "; NCCL_P2P_DISABLE=1 helps boards whose peer access does not work, docker run "
               "needs --shm-size=1g, and NCCL_DEBUG=INFO prints what NCCL does; `trainer devices "
               "--check` checks again, and --gpus 1 needs no check"));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::string not_kept = keep(platform.tuning_cache, file, key);
  warn(Notice::note(
      concat(checked.count, " GPUs checked in ", fixed(seconds, 0), " s, ",
             not_kept.empty() ? "once per driver" : concat("which cannot be kept: ", not_kept))));
}

void check_all_gpus(const backend::Platform& platform, const Environment& environment,
                    const Warn& warn) {
  const std::int64_t count = std::ssize(backend::list_gpus(platform).gpus);
  if (count < 2) {
    throw DeviceError(concat("--check compares several GPUs with one, and this machine has ", count,
                             count == 1 ? " GPU" : " GPUs"));
  }
  check_gpus({std::to_string(count), count}, false, platform, environment, warn);
}

}  // namespace trainer::commands
