#include "commands/launch/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/numbers/partition.h"
#include "base/process/process.h"
#include "base/process/secret.h"
#include "base/process/spawn.h"
#include "base/system_error.h"
#include "base/threads/topology.h"
#include "cluster/network.h"
#include "cluster/transport/socket.h"

namespace trainer::commands {
namespace {

using cluster::Clock;
using cluster::Milliseconds;
using cluster::ReservedPort;
using cluster::Socket;

// The part of worker `i` of `n`; with fewer cores than workers, one core that others have too.
std::vector<int> select_cores(const std::vector<int>& cores, std::size_t i, std::size_t n) {
  if (cores.size() < n) return {cores[i % cores.size()]};
  const Partition mine =
      partition(std::ssize(cores), static_cast<std::int64_t>(n), static_cast<std::int64_t>(i));
  return {cores.begin() + mine.first, cores.begin() + mine.first + mine.count};
}

constexpr Milliseconds kMaxPause{60'000};  // between two starts
constexpr char kSameGpus[] =
    ", on the same GPUs; leave one that fails again out by parallel.gpus or CUDA_VISIBLE_DEVICES";

// A process of the job before it is started.
struct Task {
  std::string name;                              // "rank 1" or "ps:0", for messages
  std::map<std::string, std::string> variables;  // its identity
  std::vector<int> cores;
  bool matters = true;      // whether the job fails with it
  std::string secret = {};  // of the job
};

Environment make_environment(const Task& task) {
  Environment variables = environment_variables();
  for (const char* name : {"TF_CONFIG", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                           "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}) {
    variables.erase(name);
  }
  for (const auto& [name, value] : task.variables) variables[name] = value;
  variables.emplace("TRAINER_SECRET", task.secret);  // unless the user has given one
  variables.emplace("OMP_NUM_THREADS", std::to_string(task.cores.size()));
  return variables;
}

std::vector<Task> make_ranks(const LaunchOptions& options, const std::vector<int>& cores,
                             const std::string& job, int port) {
  std::vector<Task> tasks;
  const std::size_t size = options.workers;
  for (std::size_t rank = 0; rank < size; ++rank) {
    Task task;
    task.name = concat("rank ", rank);
    task.cores = select_cores(cores, rank, size);
    task.variables = {
        {"RANK", std::to_string(rank)},       {"LOCAL_RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(size)}, {"LOCAL_WORLD_SIZE", std::to_string(size)},
        {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(port)},
        {"TORCHELASTIC_RUN_ID", job}};
    tasks.push_back(std::move(task));
  }
  return tasks;
}

// The chief is the first, as rank 0 is. `ports`: one for each task but the evaluator.
std::vector<Task> make_tasks(const LaunchOptions& options, const std::vector<int>& cores,
                             const std::vector<ReservedPort>& ports) {
  nlohmann::json cluster;
  auto port = ports.begin();
  const auto address = [&] { return concat("127.0.0.1:", (port++)->number()); };
  std::vector<Task> tasks;
  std::vector<nlohmann::json> identities;
  const auto add = [&](const char* type, int index, std::vector<int> own, bool matters) {
    tasks.push_back({concat(type, ':', index), {}, std::move(own), matters});
    identities.push_back({{"type", type}, {"index", index}});
  };
  const std::size_t size = options.workers;
  cluster["chief"] = {address()};
  add("chief", 0, select_cores(cores, 0, size), true);
  for (int i = 0; i < options.servers; ++i) {
    cluster["ps"].push_back(address());
    add("ps", i, cores, true);
  }
  for (int i = 0; i + 1 < options.workers; ++i) {
    cluster["worker"].push_back(address());
    add("worker", i, select_cores(cores, static_cast<std::size_t>(i) + 1, size),
        options.servers == 0);
  }
  if (options.evaluator) add("evaluator", 0, cores, false);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const nlohmann::json config{{"cluster", cluster}, {"task", identities[i]}};
    tasks[i].variables["TF_CONFIG"] = config.dump();
  }
  return tasks;
}

// Prints the errors of the processes of a job, each once. Ranks also report the error of another
// rank, which is printed at the end unless that rank has printed it.
class ErrorPrinter {
 public:
  void print(const std::string& prefix, const std::string& line) {
    const bool is_error = line.find(kMark) != std::string::npos;
    names_gpu_ |= is_error && line.find("GPU ") != std::string::npos;
    if (is_error && line.find(kNoticed) != std::string::npos) {
      noticed_.push_back({prefix, line});
    } else if (!is_error || is_first(line)) {
      std::cerr << prefix + line;
    }
  }
  void finish() {
    for (const auto& [prefix, line] : noticed_) {
      if (is_first(line)) std::cerr << prefix + line;
    }
    noticed_.clear();
  }
  bool names_gpu() const { return names_gpu_; }  // true if an error was about a GPU

 private:
  static constexpr std::string_view kMark = "error: ", kNoticed = "; noticed by rank ";

  // Returns whether no process has printed the error in this line.
  bool is_first(const std::string& line) {
    std::string text = line.starts_with(kMark) ? line.substr(kMark.size()) : line;
    text = text.substr(0, std::min(text.find(kNoticed), text.find('\n')));
    const bool is_known = std::ranges::any_of(texts_, [&](const std::string& known) {
      return text.find(known) != std::string::npos || known.find(text) != std::string::npos;
    });
    if (!is_known) texts_.push_back(std::move(text));
    return !is_known;
  }

  bool names_gpu_ = false;
  std::vector<std::string> texts_;
  std::vector<std::pair<std::string, std::string>> noticed_;  // prefix and line
};

// Writes whole lines behind a prefix.
class LinePrinter {
 public:
  LinePrinter(std::string prefix, ErrorPrinter& errors)
      : prefix_(std::move(prefix)), errors_(&errors) {}
  void add(const char* bytes, std::size_t size) {
    text_.append(bytes, size);
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      print(text_.substr(0, end + 1));
    }
  }
  void finish() {
    if (!text_.empty()) print(text_ + "\n");
    text_.clear();
  }

 private:
  void print(const std::string& line) const { errors_->print(prefix_, line); }
  std::string prefix_, text_;
  ErrorPrinter* errors_;
};

struct Worker {
  pid_t pid = -1;
  bool running = true;
  Socket output;  // the reading end of a pipe: standard error of rank 0, all output of the others
  LinePrinter printer;
  bool matters = true;
};

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const cluster::Network& network);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  int wait();
  // Returns whether the job has failed in a way that may pass and nobody has asked it to end.
  bool may_try_again() const { return !signalled_ && (code_ == kExitDevice || code_ > 128); }
  bool names_gpu() const { return errors_.names_gpu(); }

 private:
  void start(const Task& task, bool first);
  void read_signals();
  void reap();
  void read_output(Worker& worker);
  void send(int signal) const;
  void hurry();
  bool any_running() const;

  const LaunchOptions& options_;
  const cluster::Network& network_;
  const std::vector<ReservedPort> ports_;
  const std::vector<int> cores_;
  sigset_t signals_{}, old_signals_{};
  Socket signal_file_;
  ErrorPrinter errors_;
  std::vector<Worker> workers_;
  int code_ = 0;
  bool signalled_ = false;
  std::optional<Clock::time_point> deadline_;  // for those that still run
  int next_signal_ = SIGTERM;
};

std::string draw_job() {
  std::random_device device;
  return concat("launch-", device(), device());
}

// Rank 0 alone, or every task of a cluster but its evaluator, has an address.
std::size_t count_ports(const LaunchOptions& options) {
  const bool cluster = options.servers > 0 || options.evaluator;
  return cluster ? static_cast<std::size_t>(options.workers + options.servers) : 1;
}

Launcher::Launcher(const LaunchOptions& options, const cluster::Network& network)
    : options_(options),
      network_(network),
      ports_(count_ports(options)),
      cores_(processor_numbers(read_topology().processors)) {
  sigemptyset(&signals_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT}) {
    sigaddset(&signals_, signal);
  }
  ::sigprocmask(SIG_BLOCK, &signals_, &old_signals_);
  signal_file_ = Socket(::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK));
  const bool cluster = options.servers > 0 || options.evaluator;
  std::vector<Task> tasks = cluster ? make_tasks(options, cores_, ports_)
                                    : make_ranks(options, cores_, draw_job(), ports_[0].number());
  const std::string secret = draw_secret(32);
  for (Task& task : tasks) {
    task.secret = secret;
    start(task, &task == &tasks.front());
  }
}

Launcher::~Launcher() {
  send(SIGKILL);
  for (const Worker& worker : workers_) {
    if (worker.running) ::waitpid(worker.pid, nullptr, 0);
  }
  ::sigprocmask(SIG_SETMASK, &old_signals_, nullptr);
}

void Launcher::start(const Task& task, bool first) {
  int pipe[2] = {-1, -1};
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    throw DeviceError(concat("cannot open a pipe: ", describe_system_error(errno)));
  }
  const Socket writing(pipe[1]);
  Worker worker{.output = Socket(pipe[0]),
                .printer = LinePrinter(first ? "" : concat("[", task.name, "] "), errors_),
                .matters = task.matters};
  SpawnOptions options{options_.command, make_environment(task), old_signals_};
  options.cores = task.cores;
  options.errors = pipe[1];
  if (!first) options.output = pipe[1];
  worker.pid = spawn(options);
  ::fcntl(worker.output.get(), F_SETFL, O_NONBLOCK);
  workers_.push_back(std::move(worker));
}

int Launcher::wait() {
  while (any_running()) {
    std::vector<pollfd> events{{signal_file_.get(), POLLIN, 0}};
    for (const Worker& worker : workers_) {
      if (worker.output) events.push_back({worker.output.get(), POLLIN, 0});
    }
    network_.wait(events, network_.now() + Milliseconds(200));
    read_signals();
    for (Worker& worker : workers_) read_output(worker);
    reap();
    hurry();
  }
  for (Worker& worker : workers_) {
    read_output(worker);
    worker.printer.finish();
  }
  errors_.finish();
  return code_;
}

void Launcher::read_signals() {
  signalfd_siginfo info;
  while (::read(signal_file_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    signalled_ = signalled_ || info.ssi_signo != SIGQUIT;
    send(static_cast<int>(info.ssi_signo));
  }
}

void Launcher::reap() {
  for (Worker& worker : workers_) {
    int status = 0;
    if (!worker.running || ::waitpid(worker.pid, &status, WNOHANG) != worker.pid) continue;
    worker.running = false;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0 || !worker.matters) continue;
    // A rank that fails reports it to the others before it ends, so that they may end first.
    const bool by_itself = next_signal_ == SIGTERM;
    if (code_ == 0 || (code_ == kExitDevice && by_itself)) code_ = code;
    // One that a signal has ended leaves the others to end as well: the chief may still be saving.
    if (deadline_ || code == kExitInterrupted) continue;
    deadline_ = network_.now() + options_.patience;
    send(SIGCONT);  // a stopped one learns of it, too
  }
}

void Launcher::read_output(Worker& worker) {
  char bytes[4096];
  while (worker.output) {
    const ssize_t got = ::read(worker.output.get(), bytes, sizeof bytes);
    if (got > 0) {
      worker.printer.add(bytes, got);
    } else if (got == 0) {
      worker.output = {};
    } else if (errno != EINTR) {
      return;
    }
  }
}

// A stopped process takes other signals once it goes on.
void Launcher::send(int signal) const {
  for (const Worker& worker : workers_) {
    if (!worker.running) continue;
    ::kill(worker.pid, signal);
    ::kill(worker.pid, SIGCONT);
  }
}

void Launcher::hurry() {
  if (!deadline_ || network_.now() < *deadline_) return;
  send(next_signal_);
  next_signal_ = SIGKILL;
  deadline_ = network_.now() + options_.after_term;
}

bool Launcher::any_running() const { return std::ranges::any_of(workers_, &Worker::running); }

}  // namespace

int launch(const LaunchOptions& options) {
  if (options.workers < 1) {
    throw ConfigError({}, concat("-n: expected 1 or more, found ", options.workers));
  }
  LaunchOptions now = options;
  const auto network = options.network ? options.network : cluster::system_network();
  auto pause = options.first_wait;
  for (int restart = 1;; ++restart, pause = std::min<Milliseconds>(2 * pause, kMaxPause)) {
    Launcher launcher(now, *network);
    const int code = launcher.wait();
    if (restart > options.restarts || !launcher.may_try_again()) return code;
    std::cerr << concat("launch: the job has ended with code ", code,
                        "; it starts again from its last checkpoint in ",
                        static_cast<double>(pause.count()) / 1000, " s (", restart, " of ",
                        options.restarts, ")", launcher.names_gpu() ? kSameGpus : "", "\n")
              << std::flush;
    network->sleep(pause);
    now.command = options.restart_command;
  }
}

namespace {

// Any other command would run as copies without connections between them.
void check_is_joint(const std::string& command) {
  if (command == "train" || command == "plan") return;
  throw ConfigError(
      {}, concat("launch: '", command,
                 "' is not a command that several processes run together, which train is (and "
                 "plan, which shows each its place); run it by itself, with --replicas for several "
                 "copies of the model"));
}

// The command, so that it goes on with the run that it has begun.
std::vector<std::string> resuming(std::vector<std::string> command) {
  std::erase(command, "--overwrite");
  if (std::ranges::find(command, "--resume") == command.end()) {
    command.emplace_back("--resume");
  }
  return command;
}

}  // namespace

int execute(LaunchOptions options) {
  if (!options.job_file.scheduler.empty()) {
    std::cout << make_job_file(options.job_file, options.workers, options.command);
    return kExitOk;
  }
  check_is_joint(options.command.front());
  // When a server has died, the chief saves what it has.
  if (options.servers > 0) options.after_term = std::chrono::minutes(1);
  options.command.insert(options.command.begin(), std::filesystem::read_symlink("/proc/self/exe"));
  options.restart_command = resuming(options.command);
  return launch(options);
}

}  // namespace trainer::commands
