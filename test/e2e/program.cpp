#include "program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "checkpoint/safetensors.h"
#include "data/arrays/digits.h"
#include "support/process_events.h"

namespace trainer::e2e {
namespace {

void send_to(const Path& path, int descriptor) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(127);
}

std::string file_content(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int count_parts(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace

const char* const kModel = R"(
model:
  layers:
    - conv: {filters: 6, kernel_size: 3, use_bias: false}
    - batch_norm: {momentum: 0.9}
    - activation: relu
    - max_pool: 2
    - conv: {filters: 8, kernel_size: 3, activation: relu}
    - max_pool: 2
    - flatten
    - dropout: 0.2
    - dense: 10
)";

std::vector<Json> Result::lines() const {
  std::vector<Json> parsed;
  std::istringstream text(out);
  for (std::string line; std::getline(text, line);) parsed.push_back(Json::parse(line));
  return parsed;
}

Json Result::event(const std::string& name) const {
  Json found;
  for (const Json& line : lines()) {
    if (line.at("event") == name) found = line;
  }
  return found;
}

Program::Program(const Arguments& arguments, const Environment& environment,
                 const std::function<void()>& before) {
  std::vector<char*> argv{const_cast<char*>(TRAINER_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const Path out = folder_.path() / "out", err = folder_.path() / "err";
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ == 0) {
    send_to(out, STDOUT_FILENO);
    send_to(err, STDERR_FILENO);
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    if (before) before();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
}

Program::~Program() {
  if (reaped_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) {
  if (!ended()) ::kill(pid_, number);
}

bool Program::ended() {
  if (!reaped_) reaped_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

std::string Program::output() const { return file_content(folder_.path() / "out"); }

bool Program::wait_for(const std::string& text, int times) {
  return test::wait_for_output(
      folder_.path(), pid_, std::chrono::steady_clock::now() + std::chrono::minutes(1), [&] {
        const std::string err = file_content(folder_.path() / "err");
        return count_parts(output(), text) + count_parts(err, text) >= times;
      });
}

Result Program::wait() {
  if (!reaped_) {
    ::waitpid(pid_, &status_, 0);
    reaped_ = true;
  }
  Result result;
  result.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  result.out = output();
  result.err = file_content(folder_.path() / "err");
  return result;
}

Result run(const Arguments& arguments, const Environment& environment) {
  return Program(arguments, environment).wait();
}

Json train_to_end(const std::string& config, const Path& dir, const Arguments& more) {
  Arguments arguments{"train", config, "--json", "--run-dir", dir};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Result result = run(arguments);
  if (result.code != 0) throw std::runtime_error("trainer train: " + result.err);
  return result.event("finished");
}

std::map<std::string, std::vector<float>> load_values(const Path& file) {
  std::map<std::string, std::vector<float>> values;
  for (checkpoint::Tensor& tensor : checkpoint::read_safetensors(file).tensors) {
    values[tensor.name] = std::move(tensor.values);
  }
  return values;
}

int draw_port() {
  // Stays open, so that no other socket is given this number, though it may be listened on.
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      ::bind(descriptor, any, size) == 0 && ::getsockname(descriptor, any, &size) == 0;
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

Workspace::Workspace() : data_(folder_.path() / "digits") {
  data::generate_digits(data_, 600, 250);
}

std::string Workspace::config(const std::string& sections) const {
  const Path path = folder_.path() / "config.yaml";
  std::ofstream(path) << "name: small\nseed: 7\n" << sections;
  return path;
}

std::string rich_config(const Workspace& work) {
  return work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(}
optimizer: {sgd: {learning_rate: 0.02, momentum: 0.9}, accumulate: 2, ema: 0.9}
schedule: {cosine: {}, warm_up: {over: 5 steps}}
train: {epochs: 8, batch_size: 32}
run: {checkpoint_every: 7 steps, log_every: 1 steps, summary_every: 1 steps}
)"));
}

}  // namespace trainer::e2e
