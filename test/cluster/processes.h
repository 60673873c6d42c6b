// Processes of a test: started with a changed environment, their output in files, none left behind.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trainer::cluster {

using Variables = std::map<std::string, std::string>;

class Process {
 public:
  // Without the launchers' variables of the surroundings; `more` is added. The first argument is
  // the program.
  explicit Process(std::vector<std::string> arguments, const Variables& more = {});
  ~Process();  // kills it
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  std::string out() const;
  std::string err() const;
  // Blocks until `condition`, which may read out() and err(), holds. Returns false when it does not
  // within two minutes or by the end of the process.
  bool wait_for(const std::function<bool()>& condition) const;
  // Blocks until the standard output contains `text`. Returns false as wait_for() does.
  bool prints(const std::string& text) const;
  // The exit code, or -signal; kills it and returns 1000 when it has not ended within two
  // minutes.
  int wait();

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
};

using Processes = std::vector<std::unique_ptr<Process>>;

// Ranks of the test program that meet by flags at a free port of this host.
Processes start_ranks(int size, int port, const std::vector<std::string>& more);
std::unique_ptr<Process> start_rank(int rank, int size, int port,
                                    const std::vector<std::string>& more);
// A TF_CONFIG of workers on localhost.
std::string tf_config(const std::vector<int>& ports, int index);

// True if a program is on the PATH.
bool have(const std::string& program);

}  // namespace trainer::cluster
