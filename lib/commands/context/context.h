// What a command uses of the process that runs it. A command of the program is a struct of
// arguments with a function execute(), which returns the exit code of the process, and throws Error
// for what the user must know.
#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "base/notice.h"
#include "base/process/environment.h"

namespace trainer::commands {

struct Context {
  Environment environment;
  std::string version;  // the version of the program: "trainer 0.1.0 (commit ...)"
  std::ostream& out;    // standard output: results
  std::ostream& errors;
  bool out_is_terminal = false;  // `out` is a terminal that can rewrite a line
  bool errors_are_terminal = false;
  std::function<int()> columns = {};  // returns the width of the terminal; may be null
  std::function<int()> rows = {};     // returns its height; may be null
  // Shows the user a line beside the results; nothing for an empty text.
  Warn warn = {};
  std::istream* in = nullptr;  // standard input; null if the command has none
  // Returns whether `in` is a pipe with text that was not read; may be null.
  std::function<bool()> has_piped_text = {};
  // Asks the user and returns whether the answer is yes; null if nobody can answer.
  std::function<bool(const std::string& question)> ask = {};

  // Returns the width that tables printed to `out` may have; nothing if it is not a terminal.
  std::optional<int> terminal_width() const {
    return out_is_terminal && columns ? std::optional(columns()) : std::nullopt;
  }
};

}  // namespace trainer::commands
