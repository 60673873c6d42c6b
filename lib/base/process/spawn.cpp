#include "base/process/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "base/error.h"
#include "base/system_error.h"

namespace trainer {
namespace {

std::vector<char*> make_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Runs in the child and makes only calls that are safe between fork and exec.
[[noreturn]] void become_program(const SpawnOptions& options, pid_t parent, char* const* argv,
                                 char* const* envp, const cpu_set_t* cores) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before prctl()
  ::setpgid(0, 0);
  ::sigprocmask(SIG_SETMASK, &options.signals, nullptr);
  if (cores != nullptr) ::sched_setaffinity(0, sizeof *cores, cores);
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  if (options.output >= 0) ::dup2(options.output, STDOUT_FILENO);
  if (options.errors >= 0) ::dup2(options.errors, STDERR_FILENO);
  ::execve(argv[0], argv, envp);
  constexpr char kMessage[] = "error: cannot start the program\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage, sizeof kMessage - 1);
  ::_exit(127);
}

}  // namespace

pid_t spawn(const SpawnOptions& options) {
  const std::vector<char*> argv = make_pointers(options.command);
  std::vector<std::string> variables;
  for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
  const std::vector<char*> envp = make_pointers(variables);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : options.cores) CPU_SET(core, &cores);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw DeviceError("cannot start a process: ", describe_system_error(errno));
  if (child == 0) {
    become_program(options, parent, argv.data(), envp.data(),
                   options.cores.empty() ? nullptr : &cores);
  }
  return child;
}

namespace {

// Returns the code of a child that ends before `end`.
std::optional<int> wait_until(pid_t child, std::chrono::steady_clock::time_point end) {
  constexpr std::chrono::milliseconds kPause(20);
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::optional<int> wait_or_kill(pid_t child, std::chrono::milliseconds limit) {
  constexpr std::chrono::seconds kEndLimit(5);
  const auto start = std::chrono::steady_clock::now();
  if (const std::optional<int> code = wait_until(child, start + limit)) return code;
  ::kill(-child, SIGKILL);
  wait_until(child, std::chrono::steady_clock::now() + kEndLimit);
  return std::nullopt;
}

}  // namespace trainer
