#include "context.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iostream>

#include "base/process/process.h"
#include "base/text.h"
#include "version.h"

namespace trainer::app {
namespace {

bool is_rewritable(const Environment& variables) {
  return ::isatty(STDOUT_FILENO) == 1 && read_variable(variables, "TERM") != "dumb";
}

// Returns one side of the terminal's size, or `unknown` if the terminal does not report it.
int read_terminal_size(unsigned short winsize::*side, int unknown) {
  winsize size{};
  const bool is_known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.*side > 0;
  return is_known ? size.*side : unknown;
}

void warn(const Notice& notice) {
  if (notice.text.empty()) return;
  const char* kind = notice.kind == Notice::Kind::kNote ? "note: " : "warning: ";
  std::cerr << kind << printable(notice.text, Controls::kLines) << '\n';
}

bool has_piped_text() {
  struct stat info {};
  int bytes = 0;
  return ::fstat(STDIN_FILENO, &info) == 0 && S_ISFIFO(info.st_mode) &&
         ::ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes > 0;
}

bool ask_yes(const std::string& question) {
  std::cerr << question << " [Y/n] " << std::flush;
  std::string answer;
  if (!std::getline(std::cin, answer)) return false;
  return answer.empty() || answer[0] == 'y' || answer[0] == 'Y';
}

}  // namespace

commands::Context make_context() {
  commands::Context context{environment_variables(), version(), std::cout, std::cerr};
  context.out_is_terminal = is_rewritable(context.environment);
  context.errors_are_terminal = ::isatty(STDERR_FILENO) == 1;
  context.columns = [] { return read_terminal_size(&winsize::ws_col, 80); };
  context.rows = [] { return read_terminal_size(&winsize::ws_row, 24); };
  context.warn = warn;
  context.in = &std::cin;
  context.has_piped_text = has_piped_text;
  if (::isatty(STDIN_FILENO) == 1 && context.errors_are_terminal) context.ask = ask_yes;
  return context;
}

}  // namespace trainer::app
