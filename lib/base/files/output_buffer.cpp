#include "base/files/output_buffer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <utility>

namespace trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAtomicBytes = 4096;    // a pipe that is ready takes so many without a wait
constexpr std::size_t kBatchBytes = 1 << 16;  // text without a flush is written from here on

// Returns a non-blocking descriptor of the same pipe or terminal, or -1. O_NONBLOCK belongs to an
// open file, which other processes share, so that it is not set on the given descriptor.
int open_again(int descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  return ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// Returns whether the descriptor takes bytes now; waits for `milliseconds` at most.
bool is_writable(int descriptor, int milliseconds) {
  pollfd wait{descriptor, POLLOUT, 0};
  return ::poll(&wait, 1, milliseconds) > 0;
}

}  // namespace

OutputBuffer::OutputBuffer(int descriptor, std::function<bool()> is_stopping)
    : descriptor_(descriptor), is_stopping_(std::move(is_stopping)) {
  struct stat info {};
  const bool is_known = ::fstat(descriptor, &info) == 0;
  may_block_ = is_known && !S_ISREG(info.st_mode);
  if (!is_known || !(S_ISFIFO(info.st_mode) || ::isatty(descriptor) == 1)) return;
  if (const int again = open_again(descriptor); again >= 0) {
    descriptor_ = again;
    is_own_ = true;
  }
}

OutputBuffer::~OutputBuffer() {
  if (is_own_) ::close(descriptor_);
}

OutputBuffer::int_type OutputBuffer::overflow(int_type byte) {
  if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
  const std::lock_guard lock(mutex_);
  pending_ += traits_type::to_char_type(byte);
  return byte;
}

std::streamsize OutputBuffer::xsputn(const char* text, std::streamsize count) {
  const std::lock_guard lock(mutex_);
  pending_.append(text, count);
  if (pending_.size() < kBatchBytes) return count;
  write_peer();
  return write_some() && drain(kMaxPending) ? count : 0;
}

int OutputBuffer::sync() {
  const std::lock_guard lock(mutex_);
  write_peer();
  return write_some() && drain(kMaxPending) ? 0 : -1;
}

bool OutputBuffer::finish() {
  const std::lock_guard lock(mutex_);
  return drain(0);
}

bool OutputBuffer::write_some() {
  std::size_t done = 0;
  int error = 0;
  while (done < pending_.size() && error == 0) {
    if (may_block_ && !is_own_ && !is_writable(descriptor_, 0)) break;
    const std::size_t left = pending_.size() - done;
    const std::size_t count = may_block_ && !is_own_ ? std::min(left, kAtomicBytes) : left;
    const ssize_t put = ::write(descriptor_, pending_.data() + done, count);
    if (put >= 0) {
      done += put;
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  pending_.erase(0, done);
  if (error == 0) return true;
  drop(error);
  return false;
}

bool OutputBuffer::drain(std::size_t left) {
  constexpr int kPollMilliseconds = 50;
  Clock::time_point stopping_since{};
  while (pending_.size() > left) {
    if (!write_some()) return false;
    if (pending_.size() <= left) break;
    if (is_stopping_()) {
      if (stopping_since == Clock::time_point{}) stopping_since = Clock::now();
      const std::chrono::duration<double> waited = Clock::now() - stopping_since;
      if (waited.count() > kPatienceSeconds) {
        drop(EAGAIN);
        return false;
      }
    }
    is_writable(descriptor_, kPollMilliseconds);
  }
  return true;
}

void OutputBuffer::drop(int error) {
  pending_.clear();
  pending_.shrink_to_fit();
  if (error_ == 0) error_ = error;
}

// Does not wait for the lock: a thread that holds it writes, or waits for the same reader.
void OutputBuffer::write_peer() {
  if (peer_ == nullptr) return;
  const std::unique_lock lock(peer_->mutex_, std::try_to_lock);
  if (lock.owns_lock()) peer_->write_some();
}

StandardOutput::StandardOutput(const std::function<bool()>& is_stopping)
    : out_(STDOUT_FILENO, is_stopping),
      err_(STDERR_FILENO, is_stopping),
      previous_out_(std::cout.rdbuf(&out_)),
      previous_err_(std::cerr.rdbuf(&err_)) {
  out_.set_peer(&err_);
  err_.set_peer(&out_);
}

StandardOutput::~StandardOutput() {
  finish_output();
  std::cout.rdbuf(previous_out_);
  std::cerr.rdbuf(previous_err_);
}

void finish_output() {
  auto* out = dynamic_cast<OutputBuffer*>(std::cout.rdbuf());
  if (std::cout.good()) std::cout.flush();
  if (std::cout.good() && out != nullptr && !out->finish()) std::cout.setstate(std::ios::badbit);
  const int error = std::cout.good() || out == nullptr ? 0 : out->error();
  if (auto* err = dynamic_cast<OutputBuffer*>(std::cerr.rdbuf()); err != nullptr) err->finish();
  errno = error;
}

void write_without_wait(int descriptor, std::string_view text) {
  if (!is_writable(descriptor, 0)) return;
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  static_cast<void>(written);  // the descriptor may be closed
}

}  // namespace trainer
