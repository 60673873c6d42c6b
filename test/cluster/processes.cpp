#include "cluster/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "support/process_events.h"

extern char** environ;

namespace trainer::cluster {
namespace {

constexpr auto kLimit = std::chrono::seconds(120);

bool is_launchers(const std::string& entry) {
  for (const char* prefix : {"TF_CONFIG=", "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_",
                             "SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_"}) {
    if (entry.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

void send_to(const Path& path, int descriptor) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Process::Process(std::vector<std::string> arguments, const Variables& more) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_launchers(*entry)) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : more) environment.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
  const Path out_path = folder_.path() / "out", err_path = folder_.path() / "err";
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    send_to(out_path, STDOUT_FILENO);
    send_to(err_path, STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
}

Process::~Process() {
  if (reaped_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

std::string Process::out() const { return read_text_file(folder_.path() / "out"); }
std::string Process::err() const { return read_text_file(folder_.path() / "err"); }

bool Process::wait_for(const std::function<bool()>& condition) const {
  return test::wait_for_output(folder_.path(), pid_, std::chrono::steady_clock::now() + kLimit,
                               condition);
}

bool Process::prints(const std::string& text) const {
  return wait_for([&] {
    return std::filesystem::exists(folder_.path() / "out") && out().find(text) != std::string::npos;
  });
}

int Process::wait() {
  if (!reaped_) {
    const bool has_ended = test::wait_for_end(pid_, std::chrono::steady_clock::now() + kLimit);
    if (!has_ended) ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
    reaped_ = true;
    if (!has_ended) return 1000;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

std::unique_ptr<Process> start_rank(int rank, int size, int port,
                                    const std::vector<std::string>& more) {
  std::vector<std::string> arguments{CLUSTER_RANK,
                                     "--rank",
                                     std::to_string(rank),
                                     "--world-size",
                                     std::to_string(size),
                                     "--master",
                                     "127.0.0.1:" + std::to_string(port)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<Process>(arguments);
}

Processes start_ranks(int size, int port, const std::vector<std::string>& more) {
  Processes ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(start_rank(rank, size, port, more));
  return ranks;
}

std::string tf_config(const std::vector<int>& ports, int index) {
  std::string list;
  for (const int port : ports)
    list += (list.empty() ? "" : ", ") + ("\"localhost:" + std::to_string(port)) + "\"";
  return R"({"cluster": {"worker": [)" + list + R"(]}, "task": {"type": "worker", "index": )" +
         std::to_string(index) + "}}";
}

bool have(const std::string& program) {
  return std::system(("command -v " + program + " > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace trainer::cluster
