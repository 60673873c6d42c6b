// The command line: a list of commands, one file each, and the exit codes of what they throw.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <new>
#include <string_view>
#include <system_error>

#include "backend/open.h"
#include "base/error.h"
#include "base/files/output_buffer.h"
#include "base/process/process.h"
#include "base/process/shell.h"
#include "base/system_error.h"
#include "base/text.h"
#include "base/threads/denormals.h"
#include "commands.h"
#include "config/values.h"
#include "examples.h"
#include "train/signals.h"

namespace trainer::app {

config::Environment environment() { return environment_variables(); }

bool is_terminal() {
  const config::Environment variables = environment();
  const auto kind = variables.find("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (kind == variables.end() || kind->second != "dumb");
}

int terminal_columns() {
  constexpr int kDefaultColumns = 80;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kDefaultColumns;
}

void warn(const Notice& notice) {
  if (notice.text.empty()) return;
  const char* kind = notice.kind == Notice::Kind::kNote ? "note: " : "warning: ";
  std::cerr << kind << trainer::printable(notice.text, trainer::Controls::kLines) << '\n';
}

namespace {

// The nearest command's name is what a mistyped one needs; CLI11 would complain of its arguments.
void check_command(const std::vector<CommandDescription>& commands, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) names.push_back(command.name);
  if (std::ranges::find(names, argv[1]) != names.end()) return;
  if (std::filesystem::exists(argv[1])) {
    throw ConfigError(
        {}, concat("'", argv[1], "' is not a command; `trainer train ", shell_word(argv[1]),
                   "` trains with it, `trainer help` shows more"));
  }
  throw ConfigError({}, config::unknown("command", argv[1], "Commands", names));
}

// Options of other programs, with what to write instead.
constexpr struct {
  const char* name;
  const char* instead;
} kOtherNames[] = {
    {"--lr", "--set optimizer.adam.learning_rate=1e-4, with the optimizer of the config"},
    {"--learning-rate",
     "--set optimizer.adam.learning_rate=1e-4, with the optimizer of the config"},
    {"--optimizer", "--set 'optimizer={sgd: {learning_rate: 0.01}}'"},
    {"--device", "--set parallel.device=cuda, or =cpu; --gpus 1 sets their number"},
    {"--batch", "--batch-size 32"},
    {"--gpu", "--gpus 1"},
    {"--imgsz", "--set 'data.resize=[224, 224]' --set 'model.input=[224, 224, 3]'"},
    {"--workers", "--set data.threads=4"},
    {"--num-workers", "--set data.threads=4"},
    {"--data", "--set data.path=FOLDER"},
    {"--data-path", "--set data.path=FOLDER"},
    {"--pretrained", "--set model.backbone.weights=imagenet"},
    {"--weights", "--set model.weights=FILE"},
    {"--amp", "--set train.precision=bfloat16"},
    {"--patience", "--set train.early_stop.patience=5"},
    {"--name", "--set name=NAME"},
    {"--output-dir", "--run-dir FOLDER"},
    {"--model", "--set model.backbone.name=resnet50"},
    {"--freeze", "--set model.backbone.freeze=all"},
    {"--dropout", "dropout: 0.5 as a layer of model.head or model.layers of the config"},
    {"--cpu", "--set parallel.device=cpu"},
};
// Names that have no meaning in a command without the option that stands for them.
constexpr struct {
  std::string_view name, option, value;
} kShortNames[] = {
    {"-o", "--output", " FILE"},
    {"--out", "--output", " FILE"},
    {"-b", "--batch-size", " 32"},
    {"-e", "--epochs", " 5"},
    {"-j", "--json", ""},
    {"-q", "--quiet", ""},
    {"-f", "--overwrite", ""},
    {"--force", "--overwrite", ""},
    {"--exist-ok", "--overwrite", ""},
    {"--save-dir", "--run-dir", " FOLDER"},
    {"--project", "--run-dir", " FOLDER"},
    {"--conf", "--abstain", " 0.05, the share of wrong predictions that is allowed"},
};

// Returns what to write instead of an unknown option of a command; "" if unknown.
std::string find_other_name(const std::string& name, const std::vector<std::string>& names) {
  for (const auto& other : kShortNames) {
    if (name != other.name) continue;
    if (std::ranges::find(names, other.option) == names.end()) continue;
    return concat("; write ", other.option, other.value);
  }
  if (std::ranges::find(names, "--set") == names.end()) return "";
  for (const auto& other : kOtherNames) {
    if (name == other.name) return concat("; write ", other.instead);
  }
  return "";
}

// CLI11 does not suggest the option that a mistyped one was meant to be.
void check_options(const std::vector<CommandDescription>& commands, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) {
    if (command.name != argv[1]) continue;
    for (const OptionDescription& option : command.options) {
      for (const std::string& name : option.long_names) names.push_back("--" + name);
      for (const std::string& name : option.short_names) names.push_back("-" + name);
    }
  }
  for (int i = 2; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string argument = argv[i];
    const std::string name = argument.substr(0, argument.find('='));
    const bool is_short =
        name.size() == 2 && name[0] == '-' && std::isalpha(static_cast<unsigned char>(name[1]));
    if (!name.starts_with("--") && !is_short) continue;
    if (std::ranges::find(names, name) != names.end()) continue;
    std::string guess = find_other_name(name, names);
    if (guess.empty() && !is_short) guess = config::suggestion(name, names);
    if (guess.empty()) guess = concat("; `trainer ", argv[1], " --help` lists them");
    throw ConfigError({}, concat("unknown option '", name, "' of ", argv[1], guess));
  }
}

// A second KEY=VALUE behind one --set would be taken for a file.
void check_settings(int argc, char** argv) {
  for (int i = 3; i < argc; ++i) {
    const std::string_view setting = argv[i], before = argv[i - 1], option = argv[i - 2];
    if (option != "--set" || setting.starts_with("-")) continue;
    const std::string_view key = setting.substr(0, setting.find('='));
    if (key == setting || key.empty() || std::filesystem::exists(setting)) continue;
    throw ConfigError(
        {}, concat("--set takes one KEY=VALUE; write --set ", before, " --set ", setting));
  }
}

// Where choices of parallel.autotune are kept; "" without a home.
std::string tuning_cache(const config::Environment& variables) {
  const auto folder = [&](const char* name, const char* inner) -> std::string {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return "";
    return (std::filesystem::path(found->second) / inner).string();
  };
  for (const std::string& place :
       {folder("TRAINER_CUDA_PLAN_CACHE", ""), folder("XDG_CACHE_HOME", "trainer"),
        folder("HOME", ".cache/trainer")}) {
    if (!place.empty()) return place;
  }
  return "";
}

int run(int argc, char** argv) {
  CommandLine line("trainer", "Trains, evaluates and applies image classifiers from a YAML file.",
                   version(),
                   "Print the version and exit; with --verbose also that of every library");
  add_train(line);
  add_evaluate(line);
  add_predict(line);
  add_export(line);
  add_benchmark(line);
  add_profile(line);
  add_new(line);
  add_data(line);
  add_plan(line);
  add_find(line);
  add_launch(line);
  add_sweep(line);
  add_crossval(line);
  add_compare(line);
  add_diff(line);
  add_report(line);
  add_runs(line);
  add_verify(line);
  add_validate(line);
  add_schema(line);
  add_explain(line);
  add_man(line);
  add_completion(line);
  add_models(line);
  add_weights(line);
  add_devices(line);
  add_examples(line);

  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--version", "--verbose"}) {
    std::cout << version() << "\n\n";
    print_libraries(std::cout);
    return kExitOk;
  }
  if (words.empty()) {
    print_first_steps(std::cerr);
    return kExitConfig;
  }
  if (words[0] == "help") {
    if (words.size() == 1) {
      print_first_steps(std::cout);
      return kExitOk;
    }
    // `help COMMAND` is `COMMAND --help`.
    static char option[] = "--help";
    argv[1] = argv[2];
    argv[2] = option;
    argc = 3;
  }
  const std::vector<CommandDescription> commands = line.commands();
  check_command(commands, argc, argv);
  check_options(commands, argc, argv);
  check_settings(argc, argv);
  const config::Environment variables = environment();
  if (const auto plugin = variables.find("TRAINER_CUDA_PLUGIN"); plugin != variables.end()) {
    backend::use_cuda_plugin(plugin->second);
  }
  if (const auto cache = variables.find("TRAINER_CUDA_PLAN_CACHE"); cache != variables.end()) {
    backend::use_cuda_plan_cache(cache->second);
  }
  backend::use_cuda_tuning_cache(tuning_cache(variables));
  return line.run(argc, argv);
}

// Files of features and of decoded images are mapped; nothing else here meets this signal.
void on_lost_mapping(int) {
  constexpr std::string_view kMessage =
      "error: a mapped file has lost its end, or its disk fails: were files of cached images or of "
      "features changed while this process used them? Leave them alone, and continue with "
      "--resume\n";
  trainer::write_without_wait(STDERR_FILENO, kMessage);
  ::_exit(kExitData);
}

}  // namespace
}  // namespace trainer::app

int main(int argc, char** argv) {
  trainer::flush_denormals();
  std::ios::sync_with_stdio(false);
  // A write beyond the limit on file sizes then fails with a reason, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGBUS, trainer::app::on_lost_mapping);
  bool is_interrupted = false;
  const trainer::StandardOutput output(
      [&] { return is_interrupted || trainer::train::SignalWatch::received() != nullptr; });
  try {
    const int code = trainer::app::run(argc, argv);
    is_interrupted = code == trainer::kExitInterrupted;
    trainer::finish_output();
    if (std::cout) return code;
    const int error = errno;
    std::cerr << "error: not all of the output could be written: "
              << (error == EAGAIN ? "its reader does not read"
                  : error != 0    ? trainer::describe_system_error(error)
                                  : "is the disk full, or its reader gone?")
              << '\n';
    if (code != trainer::kExitOk) return code;
    // A signal ended the wait for the reader.
    const bool is_stopping = trainer::train::SignalWatch::received() != nullptr;
    return is_stopping ? trainer::kExitInterrupted : trainer::kExitData;
  } catch (const trainer::ConfigError& error) {
    std::cerr << trainer::printable(error.what(), trainer::Controls::kLines) << '\n';
    return error.code();
  } catch (const trainer::Error& error) {
    std::cerr << "error: " << trainer::printable(error.what(), trainer::Controls::kLines) << '\n';
    return error.code();
  } catch (const std::filesystem::filesystem_error& error) {
    std::cerr << "error: " << trainer::printable(error.path1().string()) << ": "
              << error.code().message() << '\n';
    return trainer::kExitData;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      std::cerr << "error: " << error.what() << "\nInternal error; please report it.\n";
      return 1;
    }
    std::cerr << "error: the system gives no further thread (" << error.what()
              << "); raise the limit on processes (ulimit -u, pids.max of the container), or lower "
                 "parallel.threads and data.threads\n";
    return trainer::kExitDevice;
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory; free some, or raise the limit of this process (ulimit -v, "
                 "memory.max of the container). A model takes less with a smaller "
                 "train.batch_size\n";
    return trainer::kExitDevice;
  } catch (const std::exception& error) {
    std::cerr << "error: " << trainer::printable(error.what(), trainer::Controls::kLines)
              << "\nInternal error; please report it.\n";
    return 1;
  }
}
