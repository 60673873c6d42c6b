// The program's commands, one file each: what it is called and takes, and what it does.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/notice.h"
#include "config/config.h"

namespace CLI {
class App;
}

namespace trainer::app {

// Each adds its command to the command line. When that is parsed and names the command, it runs and
// sets `code` to the process's exit code; it throws trainer::Error for what the user must know.
// `app` and `code` must outlive the parsing.
void add_train(CLI::App& app, int& code);
void add_evaluate(CLI::App& app, int& code);
void add_predict(CLI::App& app, int& code);
void add_export(CLI::App& app, int& code);
void add_benchmark(CLI::App& app, int& code);
void add_profile(CLI::App& app, int& code);
void add_new(CLI::App& app, int& code);
void add_data(CLI::App& app, int& code);
void add_plan(CLI::App& app, int& code);
void add_find(CLI::App& app, int& code);
void add_launch(CLI::App& app, int& code);
void add_sweep(CLI::App& app, int& code);
void add_compare(CLI::App& app, int& code);
void add_diff(CLI::App& app, int& code);
void add_report(CLI::App& app, int& code);
void add_verify(CLI::App& app, int& code);
void add_validate(CLI::App& app, int& code);
void add_schema(CLI::App& app, int& code);
void add_explain(CLI::App& app, int& code);
void add_models(CLI::App& app, int& code);
void add_man(CLI::App& app, int& code);
void add_completion(CLI::App& app, int& code);
void add_devices(CLI::App& app, int& code);

// A table of the shared libraries of this process and of what is compiled in, with versions.
void print_libraries(std::ostream& out);

// What evaluate takes; train is the same for a task that evaluates what others train.
struct EvaluateArguments {
  std::string run;      // a run folder, a checkpoint or a config
  std::string weights;  // of a config
  // When empty test, or validation where there is none; with follow the other way round.
  std::string split;
  bool best = false;
  std::optional<std::int64_t> average;  // of the last checkpoints
  bool flip = false;                    // with mirror images
  bool follow = false;                  // evaluates new checkpoints until the run ends
  std::vector<config::Override> overrides;
  bool json = false;
  bool quiet = false;
};
int evaluate(const EvaluateArguments& arguments);

// "trainer 0.1.0 (commit ...)".
const char* version();
// The process's environment as a map.
config::Environment environment();
// Returns true if standard output is a terminal that can rewrite a line.
bool is_terminal();
// One line on standard error that begins with "warning: " or "note: "; nothing for an empty text.
void warn(const Notice& notice);

}  // namespace trainer::app
