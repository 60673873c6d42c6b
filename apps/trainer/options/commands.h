// The program's commands, one file each: what it is called and takes, and what it does.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "base/notice.h"
#include "line/command_line.h"
#include "commands/evaluate/decision_options.h"
#include "commands/weights/weights.h"
#include "config/config.h"
#include "options/options.h"

namespace trainer::app {

// Each adds its command to the command line. When the arguments name the command, it runs and
// returns the exit code of the process; it throws trainer::Error for what the user must know.
void add_train(CommandLine& line);
void add_evaluate(CommandLine& line);
void add_predict(CommandLine& line);
void add_export(CommandLine& line);
void add_benchmark(CommandLine& line);
void add_profile(CommandLine& line);
void add_new(CommandLine& line);
void add_data(CommandLine& line);
void add_plan(CommandLine& line);
void add_find(CommandLine& line);
void add_launch(CommandLine& line);
void add_sweep(CommandLine& line);
void add_crossval(CommandLine& line);
void add_compare(CommandLine& line);
void add_diff(CommandLine& line);
void add_report(CommandLine& line);
void add_runs(CommandLine& line);
void add_verify(CommandLine& line);
void add_validate(CommandLine& line);
void add_schema(CommandLine& line);
void add_explain(CommandLine& line);
void add_models(CommandLine& line);
void add_weights(CommandLine& line);
void add_man(CommandLine& line);
void add_completion(CommandLine& line);
void add_devices(CommandLine& line);

// A table of the shared libraries of this process and of what is compiled in, with versions.
void print_libraries(std::ostream& out);

// The arguments of evaluate. A task of train that evaluates the training of others has them too.
struct EvaluateArguments : ModelArguments {
  // If empty: test, or validation where there is no test split. With follow, validation is first.
  std::string split;
  bool flip = false;       // true: adds the outputs for mirror images
  std::string thresholds;  // how to find the labels' thresholds: f1, sensitivity=S, ...
  std::string ensemble;    // more runs, with commas between, evaluated as a mean with the first
  bool follow = false;     // evaluates new checkpoints until the run ends
  commands::DecisionOptions decisions;
  bool json = false;
  bool quiet = false;
};
int evaluate(const EvaluateArguments& arguments);

// Returns the config file that the argument of a command names: the file itself. For images (a
// folder, or a CSV list) it is <name>.yaml in the current folder, which is written unless it
// exists; a note names it, and a warning an existing one that does not use the pretrained weights
// that are found now. Of the settings, only those of data.csv are written: without them a list
// might not be readable. Throws DataError for other folders, and ConfigError if the file exists and
// reads other data, and for a run, whose config has fewer rights (load_recorded()).
std::string find_config(const std::string& source, const std::vector<config::Override>& settings);

// Downloads the ImageNet weights of a backbone, as `trainer weights NAME` does, with progress on a
// terminal.
commands::Downloaded download_weights(const commands::WeightFile& weights);
// "weights/x.h5: downloaded; ...".
std::string describe(const commands::Downloaded& result);

// "trainer 0.1.0 (commit ...)".
const char* version();
// The process's environment as a map.
config::Environment environment();
// Returns true if standard output is a terminal that can rewrite a line.
bool is_terminal();
// Returns the width of the terminal of standard output; 80 if it is unknown.
int terminal_columns();
// One line on standard error that begins with "warning: " or "note: "; nothing for an empty text.
void warn(const Notice& notice);

}  // namespace trainer::app
