// What the tests of the fake share.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cuda/fake_runtime/fake.h"
#include "support/contains.h"
#include "support/skip.h"

namespace trainer::test {

constexpr bool kThreadSanitizer =
#ifdef __SANITIZE_THREAD__
    true;
#else
    false;
#endif

#define CUDA_CHECK(call) CHECK_MESSAGE((call) == cudaSuccess, "failed: " #call)
#define CUDA_REQUIRE(call) REQUIRE_MESSAGE((call) == cudaSuccess, "failed: " #call)

// The fake as after the start of a program, with TRAINER_FAKE_CUDA_<name> in the environment if one
// is given. At the end everything is forgotten. Devices have no peer access, unless it is set
// before, because most tests are not about its waits.
class FreshFake {
 public:
  FreshFake();
  FreshFake(const std::string& name, const std::string& value);
  ~FreshFake();
  FreshFake(const FreshFake&) = delete;
  FreshFake& operator=(const FreshFake&) = delete;

 private:
  std::string variable_;
};

cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking);
cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming);
// Memory of the current device or pinned memory; `count` values.
float* device_values(std::size_t count);
float* pinned_values(std::size_t count);
// Sets all values by an operation of the stream.
void fill(cudaStream_t stream, float* values, std::size_t count, float value);
// Letters that operations append, also of streams that nothing orders.
class Notes {
 public:
  void append(char letter) { letters_.at(count_++) = letter; }
  std::string text() const { return {letters_.begin(), letters_.begin() + count_.load()}; }

 private:
  std::array<std::atomic<char>, 64> letters_{};
  std::atomic<std::size_t> count_ = 0;
};
// Appends a letter by an operation of the stream.
void note(cudaStream_t stream, Notes& done, char letter);
// Copies to the host by the stream and waits.
std::vector<float> read(const float* values, std::size_t count, cudaStream_t stream);

// A graph of what is captured from a stream in `calls`, instantiated.
cudaGraphExec_t captured(cudaStream_t stream, const std::function<void()>& calls);

struct Ended {
  bool normally = false;  // with exit code 0
  std::string output;     // what it wrote to stderr and stdout
};
// What becomes of a copy of this process that does something.
Ended run_in_child(const std::function<void()>& action);
// What becomes of a command of the shell.
Ended run_command(const std::string& command);
// What is printed to stderr meanwhile.
std::string printed_by(const std::function<void()>& action);

using test::contains;

}  // namespace trainer::test
