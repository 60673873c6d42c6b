// Standard output and standard error as streams that do not wait for their reader.
//
// A pager that pauses fills the pipe within some lines. A write that waits for it would block the
// training loop, and with it all ranks and all signals, which the loop looks for between steps. The
// next line therefore writes what the pipe did not take. A thread for writing would not need the
// next line, but it would mix the lines of both streams.
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <streambuf>
#include <string>
#include <string_view>

namespace trainer {

// A stream buffer for a descriptor. sync() writes what a pipe or terminal takes without a wait, and
// keeps the rest in memory, so that a reader that pauses (`| less`) does not stop the program.
// Above kMaxPending bytes it waits for the reader. All calls may come from several threads.
class OutputBuffer final : public std::streambuf {
 public:
  static constexpr std::size_t kMaxPending = std::size_t{16} << 20;
  static constexpr double kPatienceSeconds = 2;

  // `is_stopping` returns whether the process is about to end, so that a wait for the reader ends
  // after kPatienceSeconds; the checkpoint and run.json have the results. The buffer does not own
  // the descriptor.
  OutputBuffer(int descriptor, std::function<bool()> is_stopping);
  ~OutputBuffer() override;
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;

  // Each write of this buffer then also writes what `peer` keeps, so that a warning does not wait
  // for the next one. Both must be set before other threads use them.
  void set_peer(OutputBuffer* peer) { peer_ = peer; }

  // Waits until the reader has taken everything. Returns false, and drops the rest, on an error or
  // when the process is stopping; error() is then set.
  bool finish();
  // Returns the error number of the first text that was dropped, 0 if none was.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type byte) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  // Writes until the descriptor takes no more. Returns false on an error.
  bool write_some();
  // Waits until at most `left` bytes are pending. Returns false on an error, or without patience.
  bool drain(std::size_t left);
  void drop(int error);
  void write_peer();

  int descriptor_;       // written to: the given one, or a non-blocking one of the same pipe
  bool is_own_ = false;  // true if the destructor closes descriptor_
  bool may_block_;       // true if a write to descriptor_ can wait
  std::function<bool()> is_stopping_;
  std::mutex mutex_;
  std::string pending_;
  int error_ = 0;
  OutputBuffer* peer_ = nullptr;
};

// Writes std::cout and std::cerr through an OutputBuffer each while it exists.
class StandardOutput {
 public:
  explicit StandardOutput(const std::function<bool()>& is_stopping);
  ~StandardOutput();
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

 private:
  OutputBuffer out_, err_;
  std::streambuf *previous_out_, *previous_err_;
};

// Waits until the readers of std::cout and std::cerr have taken everything. Sets the badbit of
// std::cout if its reader has not, and errno to the reason, or to 0 if everything was written.
void finish_output();

// Calls finish_output() at the end of its scope, unless an exception ends it: its message is
// printed first.
class FinishOutput {
 public:
  FinishOutput() = default;
  ~FinishOutput() {
    if (std::uncaught_exceptions() == exceptions_) finish_output();
  }
  FinishOutput(const FinishOutput&) = delete;
  FinishOutput& operator=(const FinishOutput&) = delete;

 private:
  const int exceptions_ = std::uncaught_exceptions();
};

// Writes the text if the descriptor takes it at once, and ignores errors. For signal handlers.
void write_without_wait(int descriptor, std::string_view text);

}  // namespace trainer
