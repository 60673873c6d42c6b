// Runs the program itself as a user would.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"

namespace trainer::e2e {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;
using Environment = std::vector<std::pair<std::string, std::string>>;

struct Result {
  int code = -1;  // exit code, or -signal
  std::string out, err;
  std::vector<Json> lines()
      const;  // those of standard output, each parsed; throws when one is not JSON
  Json event(const std::string& name) const;  // the last one of this name; null when there is none
};

// A process that runs `trainer` with its outputs in files of a temporary folder.
class Program {
 public:
  // `environment` adds to this process's: {name, value} pairs. `before` runs in the process before
  // the program does.
  explicit Program(const Arguments& arguments, const Environment& environment = {},
                   const std::function<void()>& before = {});
  ~Program();  // kills it
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number);
  std::string output() const;  // so far
  // True if `text` turned up in the outputs so many times before the process ended, within a
  // minute.
  bool wait_for(const std::string& text, int times = 1);
  Result wait();

 private:
  bool ended();
  TemporaryFolder folder_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
};

Result run(const Arguments& arguments, const Environment& environment = {});
// Trains into `dir` and returns the "finished" event. Throws unless the exit code is 0.
Json train_to_end(const std::string& config, const Path& dir, const Arguments& more = {});

// The tensors of a safetensors file by name.
std::map<std::string, std::vector<float>> load_values(const Path& file);

// A port of 127.0.0.1 that is free, and that no other test gets until the test program ends.
int draw_port();

// Folders with a small drawn data set and configs, for one test.
class Workspace {
 public:
  Workspace();
  Path operator/(const std::string& name) const { return folder_.path() / name; }
  const std::string& data() const { return data_; }
  // Writes config.yaml and returns its path. Each option replaces one of the lines below its
  // section.
  std::string config(const std::string& sections) const;

 private:
  TemporaryFolder folder_;
  std::string data_;
};

// A small convolutional net with batch norm and dropout.
extern const char* const kModel;
// The same with everything that a resume must restore: momentum, accumulation, weight average.
std::string rich_config(const Workspace& work);

}  // namespace trainer::e2e
