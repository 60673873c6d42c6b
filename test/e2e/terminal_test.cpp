// What stands on a terminal: none of its escapes where it has none.
#include <doctest/doctest.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/formats/columns.h"
#include "base/text.h"
#include "program.h"

namespace trainer::e2e {
namespace {

constexpr unsigned short kColumns = 80, kRows = 24;

// Returns what a program writes to a terminal of this kind. Interrupts the program once the text
// contains `last`, if that is not empty.
std::string shown(const Arguments& arguments, const std::string& kind, std::string last = "") {
  int master = -1, terminal = -1;
  const winsize size{kRows, kColumns, 0, 0};
  REQUIRE(::openpty(&master, &terminal, nullptr, nullptr, &size) == 0);
  std::string text;
  {
    Program program(arguments, {{"TERM", kind}, {"LC_ALL", "C.UTF-8"}}, [terminal] {
      ::dup2(terminal, STDOUT_FILENO);
      ::dup2(terminal, STDERR_FILENO);
    });
    ::close(terminal);
    // Read as it is written: a terminal holds little. The read fails when the program has ended.
    std::thread reader([&] {
      char part[4096];
      for (;;) {
        const ssize_t count = ::read(master, part, sizeof part);
        if (count <= 0) break;
        text.append(part, static_cast<std::size_t>(count));
        if (last.empty() || text.find(last) == std::string::npos) continue;
        program.signal(SIGINT);
        last.clear();
      }
    });
    const int code = program.wait().code;
    reader.join();
    CHECK(code == 0);
  }
  ::close(master);
  return text;
}

}  // namespace

TEST_CASE("train: TERM=dumb prints no escape sequences and no rewritten line") {
  const Workspace work;
  const std::string config = work.config(concat(R"(
model: {layers: [flatten, dense: 10]}
data: {format: digits, path: )",
                                                work.data(), R"(}
train: {max_steps: 4, batch_size: 32}
)"));
  const auto train = [&](const char* kind) {
    return shown({"train", config, "--run-dir", work / kind}, kind);
  };
  const std::string dumb = train("dumb");
  CHECK(dumb.find('\x1b') == std::string::npos);
  // The terminal itself makes \r\n of \n.
  for (std::size_t at = dumb.find('\r'); at != std::string::npos; at = dumb.find('\r', at + 1)) {
    CHECK(dumb.compare(at, 2, "\r\n") == 0);
  }
  CHECK(dumb.find("total time") != std::string::npos);
  CHECK(train("xterm").find('\x1b') != std::string::npos);
}

TEST_CASE("help: no line is longer than the 80 columns of a terminal but those of examples") {
  for (const Arguments& arguments : {Arguments{"train", "--help"}, Arguments{"--help"}}) {
    const std::string help = shown(arguments, "xterm");
    bool is_example = false;
    int lines = 0;
    for (std::string line : split_text(help, '\n')) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.starts_with(' ')) is_example = line == "Examples:";
      INFO(line);
      CHECK((is_example || line.size() <= 80));
      ++lines;
    }
    CHECK(lines > 40);
  }
}

TEST_CASE("watch draws two runs with charts into an 80-column terminal until Ctrl-C") {
  const Workspace work;
  const std::string config =
      work.config(concat(kModel, "data: {format: idx, path: ", work.data(), R"(}
train: {max_steps: 1000000, batch_size: 32}
run: {evaluate_every: 20 steps, summary_every: 2 steps, tensorboard: false}
)"));
  Program first({"train", config, "--run-dir", work / "a"});
  Program second({"train", config, "--run-dir", work / "b"});
  REQUIRE(first.wait_for("test: loss "));
  REQUIRE(second.wait_for("test: loss "));
  const std::string text =
      shown({"watch", work / "a", work / "b", "--every", "0.1"}, "xterm", "Accuracy: train");
  const std::size_t end = text.find("\x1b[?1049l");
  REQUIRE(text.starts_with("\x1b[?1049h\x1b[H"));
  REQUIRE(end != std::string::npos);
  const std::vector<std::string> lines = split_text(text.substr(text.find('l', end) + 1), '\n');
  CHECK(lines.size() <= kRows);
  std::string plain;
  for (std::string line : lines) {
    if (line.ends_with('\r')) line.pop_back();
    INFO(line);
    CHECK(count_columns(line) < kColumns);
    CHECK(line.find('\x1b') == std::string::npos);
    plain += line + '\n';
  }
  for (const char* part : {"/a: running  step ", "/b: running  step ", "  eta ", " images/s",
                           "  wait ", "  1 replica", "Loss: train, • test", "Accuracy: train"}) {
    INFO(part);
    CHECK(plain.find(part) != std::string::npos);
  }
}

}  // namespace trainer::e2e
