// The program's commands, one file each. Every function returns the process's exit code and throws
// trainer::Error for what the user must know.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/identity.h"
#include "config/config.h"
#include "train/simulate.h"

namespace CLI {
class App;
}

namespace trainer::app {

// What all commands that read a config take.
struct ConfigArguments {
  std::string path;
  std::vector<config::Override> overrides;  // --set and the flags that stand for keys, in order
  bool json = false;
  bool quiet = false;
};

struct TrainArguments : ConfigArguments {
  bool resume = false;
  bool overwrite = false;
  cluster::IdentityFlags identity;
};
int train(const TrainArguments& arguments);

struct EvaluateArguments {
  std::string run;  // a run folder or a checkpoint
  // When empty test, or validation where there is none; with follow the other way round.
  std::string split;
  bool best = false;
  bool follow = false;  // evaluates new checkpoints until the run ends
  std::vector<config::Override> overrides;
  bool json = false;
  bool quiet = false;
};
int evaluate(const EvaluateArguments& arguments);

struct PredictArguments {
  std::string run;
  // Image files, folders of them or array files; a split of the config's data when empty.
  std::vector<std::string> images;
  std::string split;                // as of evaluate
  std::string format = "table";     // table, csv, jsonl
  std::optional<std::int64_t> top;  // classes shown, the likeliest first
  bool json = false;                // the same as format jsonl
  bool skip_damaged = false;        // image files that cannot be read are named and left out
  std::optional<std::int64_t> limit;
  bool best = false;
  std::vector<config::Override> overrides;
};
int predict(const PredictArguments& arguments);

struct ExportArguments {
  std::string run;     // a run folder or a checkpoint
  std::string format;  // keras_h5, safetensors, onnx
  std::string output;
  bool overwrite = false;  // an output that exists
  bool best = false;
  std::vector<config::Override> overrides;
};
int export_model(const ExportArguments& arguments);

struct BenchmarkArguments : ConfigArguments {
  double seconds = 5;       // measured time, after a warm-up
  bool input_only = false;  // the input pipeline alone
  bool normalize = false;   // input_only: to the numbers that the model's first layer reads
  bool synthetic = false;   // synthetic data of the config's shape in place of its own
};
int benchmark(const BenchmarkArguments& arguments);

struct DataArguments : ConfigArguments {
  std::string group_by;  // regular expression on paths; its group must stay within one split
  std::string sheet;     // write a contact sheet here in place of checking
  std::int64_t samples = 64;
};
int data(const DataArguments& arguments);

struct PlanArguments : ConfigArguments {
  std::string print_after;        // a compiler pass, or "all"
  bool program = false;           // also what the backend runs, step by step
  std::string plot;               // write the learning-rate curve to this SVG file
  std::optional<int> world_size;  // plan for so many processes, which nothing else tells
  train::SimulationRequest simulation;
};
int plan(const PlanArguments& arguments);

struct LaunchArguments {
  int workers = 0, servers = 0;
  bool evaluator = false;
  std::vector<std::string> command;  // of this program, e.g. train CONFIG
};
int launch(const LaunchArguments& arguments);

struct VerifyArguments : ConfigArguments {
  std::string what;  // replicas or resume
  std::vector<std::int64_t> replicas{1, 2, 4};
  std::int64_t steps = 200;
};
int verify(const VerifyArguments& arguments);

int validate(const std::vector<std::string>& paths, const std::vector<config::Override>& overrides);
int schema();
// Prints the script that completes `app`'s commands and options in `shell`: bash, zsh or fish.
int completion(const CLI::App& app, const std::string& shell);
int devices(bool json);

// The process's environment as a map.
config::Environment environment();
// One line on standard error that begins with "warning: "; nothing for an empty one.
void warn(const std::string& line);

}  // namespace trainer::app
