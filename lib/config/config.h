// The config: one plain struct per section of the YAML file, each field with its default.
//
// The field list beside each struct (config/field.h) is what reads a file, prints the effective
// config and writes the JSON Schema; nothing else in the program looks a key up by its name.
// Optional values that the user left out and that the program chooses are std::optional.
//
// To add a key: a member in sections/<section>.h and its line in sections/<section>.cpp. Names are
// Keras's where Keras has one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/process/environment.h"
#include "config/sections/data.h"
#include "config/sections/evaluate.h"
#include "config/sections/model.h"
#include "config/sections/optimizer.h"
#include "config/sections/parallel.h"
#include "config/sections/run.h"
#include "config/sections/schedule.h"
#include "config/sections/train.h"

namespace trainer::config {

struct Config {
  std::string name;  // the file's name without .yaml when empty
  std::uint64_t seed = 42;
  Model model;
  Data data;
  Optimizer optimizer;
  Schedule schedule;
  Train train;
  Parallel parallel;
  Evaluate evaluate;
  Run run;
};
void fields(FieldVisitor& v, Config& s);

// ---- Reading and writing -----------------------------------------------------------------------

// The origin of a value: a location in a file, "--set", an environment variable, the pretrained
// weights or the default.
struct Origin {
  enum class Kind { kDefault, kFile, kSet, kEnvironment, kWeights } kind = Kind::kDefault;
  SourceLoc loc;
  std::string detail;  // the name of the variable or of the weights

  // Returns whether neither a file nor the command line gives the value.
  bool is_open() const { return kind == Kind::kDefault || kind == Kind::kWeights; }
};

using Environment = trainer::Environment;

struct LoadedConfig {
  Config config;
  std::map<std::string, Origin> origins;  // keys: dotted paths, "model.layers[2].conv.filters"
  std::string notice{};  // names a recorded value that this version has no more; "" if none
};

// A value from the command line for one key. List entries are addressed as a[2].b.
struct Override {
  // kText: the value is one scalar, byte for byte; flags and environment variables use it. kYaml:
  // the value is YAML and may contain variables, as in a config; --set uses it.
  enum class Syntax { kText, kYaml };
  std::string path;
  std::string value;
  std::string flag;  // "--set" or e.g. "--epochs", for messages
  Syntax syntax = Syntax::kText;
};
// Returns KEY=VALUE for --set, which gives the key the same value as the override.
std::string to_setting(const Override& override_);

// Returns whether a config file gives this key at its top level; true for a file that cannot be
// read as one, which load_config() reports.
bool has_section(const std::string& path, const std::string& key, const Environment& environment);

// Reads and checks a config. Throws ConfigError with every mistake found, in file order.
// ${NAME} and ${NAME:-default} in scalars are replaced from `environment` before they are parsed.
LoadedConfig load_config(const std::string& path, const std::vector<Override>& overrides,
                         const Environment& environment);
// Does the same for text in memory. `file` is used in messages.
LoadedConfig parse_config(const std::string& text, const std::string& file,
                          const std::vector<Override>& overrides, const Environment& environment);

// Does the same for the config in a checkpoint or a run folder. The author of that file is not
// trusted: the config cannot extend a file or read an environment variable (both are errors),
// nothing is written into folders that it names (Data::folders), nothing is sent to a server that
// it names (run.mlflow), and no port or file is opened for run.prometheus. A value of
// parallel.collective that this version has no more is read as auto. `overrides` are the user's
// own, and only they read `environment`.
// Reasons: lib/decisions/config.md#a-recorded-config-has-fewer-rights.
LoadedConfig parse_recorded_config(const std::string& text, const std::string& file,
                                   const std::vector<Override>& overrides = {},
                                   const Environment& environment = {});

// Returns `text` as a YAML scalar that reads back to the same text: in double quotes, unless it is
// a plain word, number or path.
std::string to_yaml(const std::string& text);
// Returns the effective config as YAML with every field, which reads back to the same config.
std::string to_yaml(const Config& config);
// Returns every leaf as (dotted path, value), in schema order. `plan` prints them with their
// origins.
std::vector<std::pair<std::string, std::string>> leaves(const Config& config);

// A leaf, or a choice such as `optimizer`, that differs between two configs; "absent" for a value
// that one of them does not have.
struct Change {
  std::string key, before, now;
  // kError: what the model computes, how its input is prepared, or whose slots the optimizer keeps.
  enum class Severity { kWarning, kError } severity = Severity::kWarning;
};
// Returns the differences between the config `now` of a resumed run and the config `before` of its
// checkpoint. Leaves out keys that may change freely, because they only affect where files are, the
// device, or the output.
std::vector<Change> resume_changes(const Config& before, const Config& now);

// Returns the JSON Schema (draft 2020-12) of a config file.
std::string json_schema();

}  // namespace trainer::config
