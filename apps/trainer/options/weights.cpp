#include "commands/weights/weights.h"

#include <unistd.h>

#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/text.h"
#include "options/commands.h"

namespace trainer::app {
namespace {

// Rewrites a line of a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string name) : name_(std::move(name)) {}
  ~ProgressLine() {
    if (last_ >= 0) std::cerr << '\n';
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::int64_t bytes, std::int64_t total) {
    const std::int64_t percent = bytes * 100 / total;
    if (percent == last_) return;
    last_ = percent;
    std::cerr << '\r' << name_ << ": " << std::fixed << std::setprecision(1)
              << static_cast<double>(bytes) / 1e6 << " of " << static_cast<double>(total) / 1e6
              << " MB, " << percent << " %  " << std::flush;
  }

 private:
  std::string name_;
  std::int64_t last_ = -1;
};

void print_downloaded(const commands::WeightFile& weights, const commands::Downloaded& result,
                      bool json) {
  if (!json) {
    std::cout << describe(result) << '\n';
    return;
  }
  write_event(std::cout, {{"event", "downloaded"},
                          {"name", weights.name},
                          {"file", result.file.string()},
                          {"bytes", result.bytes},
                          {"was_there", result.was_there}});
}

}  // namespace

commands::Downloaded download_weights(const commands::WeightFile& weights) {
  ProgressLine line(weights.name);
  commands::DownloadProgress progress;
  if (::isatty(STDERR_FILENO) == 1) {
    progress = [&](std::int64_t bytes, std::int64_t total) { line.show(bytes, total); };
  }
  return commands::download_weights(weights, environment(), progress);
}

std::string describe(const commands::Downloaded& result) {
  const std::string file = result.file.string();
  if (result.was_there) return concat(file, ": already there");
  std::string text = concat(file, ": downloaded");
  if (result.resumed > 0) text += concat(", continued after ", result.resumed, " bytes");
  if (!result.sha256.empty()) {
    text += concat("; its publisher gives no checksum, its SHA-256 ", result.sha256,
                   " is recorded in ", result.file.filename().string(), ".sha256");
  }
  return text;
}

void add_weights(CommandLine& line) {
  struct Arguments {
    std::vector<std::string> names;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      line.add_command("weights", "ImageNet weights of the backbones: list them, or download some");
  command.add_option("name", arguments->names,
                     "Backbones whose weights to download: into $WEIGHTS_DIR, else `weights` if "
                     "this folder exists, else ~/.keras/models; a list of all when left out");
  command.add_flag("--json", arguments->json, "JSON objects, one per line");
  command.run([arguments] {
    if (arguments->names.empty()) {
      (arguments->json ? commands::print_weights_json : commands::print_weights)(std::cout,
                                                                                 environment());
    }
    for (const std::string& name : arguments->names) {
      const commands::WeightFile weights = commands::find_weight_file(name, environment());
      print_downloaded(weights, download_weights(weights), arguments->json);
    }
    return kExitOk;
  });
}

}  // namespace trainer::app
