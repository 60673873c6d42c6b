// Runs the command line and turns exceptions into exit codes.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <new>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/files/output_buffer.h"
#include "base/system_error.h"
#include "base/text.h"
#include "base/threads/denormals.h"
#include "context.h"
#include "line/examples.h"
#include "line/hints.h"
#include "options/commands.h"
#include "train/signals.h"
#include "version.h"

namespace trainer::app {
namespace {

int run(std::vector<std::string> words) {
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
  add_watch(line);
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
    words = {words[1], "--help"};  // `help COMMAND` is `COMMAND --help`
  }
  check_words(line.commands(), words);
  const commands::Context context = make_context();
  return line.run(std::move(words), context.terminal_width());
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
    const int code = trainer::app::run({argv + 1, argv + argc});
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
