#include "base/files/output_buffer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <future>
#include <ostream>

#include "base/files/files.h"

namespace trainer {
namespace {

struct Pipe {
  Pipe() {
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    REQUIRE(::fcntl(ends[1], F_SETPIPE_SZ, 4096) > 0);
  }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  // Reads until `count` bytes have come.
  std::string read(std::size_t count) const {
    std::string text(count, '\0');
    std::size_t done = 0;
    while (done < count) {
      const ssize_t got = ::read(ends[0], text.data() + done, count - done);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    text.resize(done);
    return text;
  }
  std::array<int, 2> ends{};
};

std::string numbered_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE(
    "OutputBuffer: while a reader pauses, the writer goes on and every byte arrives in order") {
  const Pipe pipe;
  OutputBuffer buffer(pipe.ends[1], [] { return false; });
  std::ostream out(&buffer);
  const std::string text = numbered_lines(20'000);
  for (std::size_t at = 0; at < text.size(); at += 100) out << text.substr(at, 100) << std::flush;
  REQUIRE(out);
  // The pipe of the given descriptor still blocks for its other users.
  CHECK((::fcntl(pipe.ends[1], F_GETFL) & O_NONBLOCK) == 0);
  auto reader = std::async(std::launch::async, [&] { return pipe.read(text.size()); });
  CHECK(buffer.finish());
  CHECK(reader.get() == text);
}

TEST_CASE("OutputBuffer: above kMaxPending bytes, the writer waits for the reader") {
  const Pipe pipe;
  OutputBuffer buffer(pipe.ends[1], [] { return false; });
  std::ostream out(&buffer);
  const std::string text(OutputBuffer::kMaxPending / 4, 'x');
  auto writer = std::async(std::launch::async, [&] {
    for (int i = 0; i < 5; ++i) out << text << std::flush;
    return out.good() && buffer.finish();
  });
  CHECK(writer.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  CHECK(pipe.read(5 * text.size()).size() == 5 * text.size());
  CHECK(writer.get());
}

TEST_CASE("OutputBuffer: the next write of the peer writes a text that was kept") {
  const Pipe full, open;
  OutputBuffer errors(full.ends[1], [] { return false; }),
      lines(open.ends[1], [] { return false; });
  lines.set_peer(&errors);
  std::ostream err(&errors), out(&lines);
  const std::string text = numbered_lines(20'000) + "warning\n";
  err << text << std::flush;
  std::string received;
  while (received.size() < text.size()) {
    received += full.read(std::min<std::size_t>(4096, text.size() - received.size()));
    out << '.' << std::flush;  // not `err`
  }
  CHECK(received == text);
}

TEST_CASE("OutputBuffer: finish returns in bounded time and drops the rest when a process stops") {
  const Pipe pipe;
  OutputBuffer buffer(pipe.ends[1], [] { return true; });
  std::ostream out(&buffer);
  out << numbered_lines(20'000) << std::flush;
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(buffer.finish());
  CHECK(buffer.error() == EAGAIN);
  CHECK(seconds_since(start) < 10 * OutputBuffer::kPatienceSeconds);
  CHECK(buffer.finish());  // nothing is left
  CHECK(pipe.read(4096) == numbered_lines(20'000).substr(0, 4096));
}

TEST_CASE("OutputBuffer: the stream fails with EPIPE where the reader has gone") {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  OutputBuffer buffer(ends[1], [] { return false; });
  std::ostream out(&buffer);
  ::close(ends[0]);
  out << "x" << std::flush;
  CHECK(buffer.error() == EPIPE);
  CHECK_FALSE(out);
  ::close(ends[1]);
  std::signal(SIGPIPE, before);
}

TEST_CASE("OutputBuffer appends text to a regular file") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "out";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::write(file, "1", 1) == 1);
  OutputBuffer buffer(file, [] { return false; });
  std::ostream out(&buffer);
  out << '2' << std::flush << "3";
  CHECK(read_text_file(path) == "12");
  CHECK(buffer.finish());
  CHECK(read_text_file(path) == "123");
  ::close(file);
}

TEST_CASE("write_without_wait does not wait for a full pipe") {
  const Pipe pipe;
  const std::string text(4096, 'x');
  write_without_wait(pipe.ends[1], text);
  write_without_wait(pipe.ends[1], "more");
  CHECK(pipe.read(4096) == text);
  write_without_wait(pipe.ends[1], "more");
  CHECK(pipe.read(4) == "more");
}

}  // namespace trainer
