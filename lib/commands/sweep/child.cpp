#include "commands/sweep/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/process/spawn.h"
#include "base/system_error.h"

namespace trainer::commands {
namespace {

constexpr int kForwarded[]{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  return set;
}

// The signals, blocked for as long as it lives and read from a file.
class SignalFile {
 public:
  int get() const { return file_.get(); }
  // Returns the signals that were blocked before, except those that are passed on.
  sigset_t old() const { return guard_.unblocked(); }
  // The next signal that came; 0 for none.
  int next() const {
    signalfd_siginfo info;
    const bool got = ::read(file_.get(), &info, sizeof info) == sizeof info;
    return got ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  static int open() {
    const sigset_t set = signals();
    return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  SignalGuard guard_;
  Descriptor file_{open()};
};

class Child {
 public:
  explicit Child(const ChildOptions& options);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ChildResult wait();

 private:
  void read_output();

  const ChildOptions& options_;
  SignalFile signals_;
  pid_t pid_ = -1;
  std::string text_;  // of a line that is not complete
  Descriptor output_;
};

Child::Child(const ChildOptions& options) : options_(options) {
  int pipe[2] = {-1, -1};
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    throw DeviceError("cannot open a pipe: ", describe_system_error(errno));
  }
  output_ = Descriptor(pipe[0]);
  const Descriptor writing(pipe[1]);
  const Descriptor errors(
      ::open(options.errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!errors) {
    throw DataError(options.errors.string(), "cannot write: ", describe_system_error(errno));
  }
  SpawnOptions program{options.command, options.environment, signals_.old()};
  program.output = writing.get();
  program.errors = errors.get();
  pid_ = spawn(program);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

// The child closes its output at the latest when it ends.
ChildResult Child::wait() {
  ChildResult result;
  while (output_) {
    pollfd events[] = {{signals_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}};
    ::poll(events, 2, -1);
    for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
      result.signalled = true;
      ::kill(pid_, signal);
      ::kill(pid_, SIGCONT);  // a stopped one takes other signals once it goes on
    }
    read_output();
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void Child::read_output() {
  char bytes[4096];
  for (;;) {
    const ssize_t got = ::read(output_.get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return;
    if (got == 0) {
      output_ = {};
      if (!text_.empty()) options_.on_line(text_);
      return;
    }
    text_.append(bytes, got);
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      options_.on_line(text_.substr(0, end));
    }
  }
}

}  // namespace

SignalGuard::SignalGuard() {
  const sigset_t set = signals();
  ::sigprocmask(SIG_BLOCK, &set, &old_);
}

SignalGuard::~SignalGuard() { ::sigprocmask(SIG_SETMASK, &old_, nullptr); }

sigset_t SignalGuard::unblocked() const {
  sigset_t set = old_;
  for (const int signal : kForwarded) sigdelset(&set, signal);
  return set;
}

bool SignalGuard::take() {
  const sigset_t set = signals();
  const timespec now{};
  return ::sigtimedwait(&set, nullptr, &now) > 0;
}

ChildResult run_child(const ChildOptions& options) { return Child(options).wait(); }

}  // namespace trainer::commands
