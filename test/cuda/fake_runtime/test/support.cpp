#include "cuda/fake_runtime/test/support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace trainer::test {
namespace {

std::string read_all(int file) {
  std::string text;
  char part[4096];
  for (;;) {
    const ssize_t n = ::read(file, part, sizeof part);
    if (n <= 0) break;
    text.append(part, static_cast<std::size_t>(n));
  }
  close(file);
  return text;
}

}  // namespace

FreshFake::FreshFake() {
  setenv("TRAINER_FAKE_CUDA_PEER_ACCESS", "0", 0);
  fake::reset();
}

FreshFake::FreshFake(const std::string& name, const std::string& value)
    : variable_("TRAINER_FAKE_CUDA_" + name) {
  setenv(variable_.c_str(), value.c_str(), 1);
  setenv("TRAINER_FAKE_CUDA_PEER_ACCESS", "0", 0);
  fake::reset();
}

FreshFake::~FreshFake() {
  if (!variable_.empty()) unsetenv(variable_.c_str());
  unsetenv("TRAINER_FAKE_CUDA_PEER_ACCESS");
  fake::reset();
}

cudaStream_t make_stream(unsigned flags) {
  cudaStream_t stream = nullptr;
  CUDA_REQUIRE(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

cudaEvent_t make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  CUDA_REQUIRE(cudaEventCreateWithFlags(&event, flags));
  return event;
}

float* device_values(std::size_t count) {
  void* memory = nullptr;
  CUDA_REQUIRE(cudaMalloc(&memory, count * sizeof(float)));
  return static_cast<float*>(memory);
}

float* pinned_values(std::size_t count) {
  void* memory = nullptr;
  CUDA_REQUIRE(cudaHostAlloc(&memory, count * sizeof(float), cudaHostAllocDefault));
  return static_cast<float*>(memory);
}

void fill(cudaStream_t stream, float* values, std::size_t count, float value) {
  CUDA_REQUIRE(fake::enqueue(stream, "fill", [=] { std::fill(values, values + count, value); }));
}

void note(cudaStream_t stream, Notes& done, char letter) {
  CUDA_REQUIRE(
      fake::enqueue(stream, std::string(1, letter), [&done, letter] { done.append(letter); }));
}

std::vector<float> read(const float* values, std::size_t count, cudaStream_t stream) {
  std::vector<float> result(count);
  CUDA_REQUIRE(cudaMemcpyAsync(result.data(), values, count * sizeof(float), cudaMemcpyDeviceToHost,
                               stream));
  CUDA_REQUIRE(cudaStreamSynchronize(stream));
  return result;
}

cudaGraphExec_t captured(cudaStream_t stream, const std::function<void()>& calls) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CUDA_REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  calls();
  CUDA_REQUIRE(cudaStreamEndCapture(stream, &graph));
  CUDA_REQUIRE(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_REQUIRE(cudaGraphDestroy(graph));
  return exec;
}

Ended run_in_child(const std::function<void()>& action) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    action();
    std::exit(0);
  }
  close(ends[1]);
  Ended ended;
  ended.output = read_all(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  ended.normally = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ended;
}

Ended run_command(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  char part[4096];
  while (const std::size_t n = std::fread(part, 1, sizeof part, pipe)) ended.output.append(part, n);
  ended.normally = pclose(pipe) == 0;
  return ended;
}

std::string printed_by(const std::function<void()>& action) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  action();
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  lseek(fileno(file), 0, SEEK_SET);
  std::string text = read_all(dup(fileno(file)));
  std::fclose(file);
  return text;
}

}  // namespace trainer::test
