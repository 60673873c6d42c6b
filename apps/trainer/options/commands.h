// Declares the functions that add the commands to the command line.
#pragma once

#include "line/command_line.h"

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
void add_watch(CommandLine& line);
void add_verify(CommandLine& line);
void add_validate(CommandLine& line);
void add_schema(CommandLine& line);
void add_explain(CommandLine& line);
void add_models(CommandLine& line);
void add_weights(CommandLine& line);
void add_man(CommandLine& line);
void add_completion(CommandLine& line);
void add_devices(CommandLine& line);

}  // namespace trainer::app
