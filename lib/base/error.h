// Errors with the place in the user's files that caused them, and the exit code each maps to.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trainer {

// A place in a config file. Lines and columns count from 1; 0 means unknown.
struct SourceLoc {
  std::string file;
  int line = 0;
  int column = 0;

  bool known() const { return line > 0 || !file.empty(); }
};

// "configs/x.yaml:41:7", or the file alone, or "" when nothing is known.
std::string to_string(const SourceLoc& loc);

// A text or number in concat(). Refers to texts, which must outlive it. Real numbers have six
// significant digits, as printf's %g gives them; bool is 0 or 1.
class TextPart {
 public:
  TextPart(std::string_view text) : text_(text) {}
  TextPart(const std::string& text) : text_(text) {}
  TextPart(const char* text) : text_(text) {}
  TextPart(char character) : text_(buffer_, 1) { buffer_[0] = character; }
  TextPart(bool number) : TextPart(number ? "1" : "0") {}
  TextPart(int number) : TextPart(static_cast<long long>(number)) {}
  TextPart(long number) : TextPart(static_cast<long long>(number)) {}
  TextPart(long long number);
  TextPart(unsigned number) : TextPart(static_cast<unsigned long long>(number)) {}
  TextPart(unsigned long number) : TextPart(static_cast<unsigned long long>(number)) {}
  TextPart(unsigned long long number);
  TextPart(double number);
  // Rejects a uint8_t, which could be a number or a character, a path, which could be in quotes or
  // not, and pointers and manipulators such as std::hex, which would convert to bool.
  TextPart(signed char) = delete;
  TextPart(unsigned char) = delete;
  template <class T>
  requires(!std::is_arithmetic_v<T> && !std::is_enum_v<T> &&
           !std::is_convertible_v<const T&, const char*>) TextPart(const T&)
  = delete;
  TextPart(const TextPart&) = delete;
  TextPart& operator=(const TextPart&) = delete;

  std::string_view text() const { return text_; }

 private:
  char buffer_[24];
  std::string_view text_;
};

std::string join_parts(std::initializer_list<TextPart> parts);

// Joins texts and numbers to one text; g++ 12 has no <format>.
template <class... Parts>
std::string concat(const Parts&... parts) {
  return join_parts({TextPart(parts)...});
}

// One mistake in a config: where, what was expected, what to do.
struct Diagnostic {
  SourceLoc loc;
  std::string message;
};

std::string to_string(const Diagnostic& diagnostic);  // "file:line:col: error: message"

// The process's exit codes. They are part of the command line's contract.
enum ExitCode {
  kExitOk = 0,
  kExitConfig = 2,  // the config or the command line is wrong
  kExitData = 3,    // a file of the data set, a checkpoint or a weight file is wrong or missing
  kExitDevice = 4,  // a device or a peer failed
  kExitCheck = 5,   // a promise did not hold: diverged, frozen parameter changed, replicas differ
  kExitInterrupted =
      75  // stopped by a signal after a checkpoint was written (EX_TEMPFAIL: try again)
};

// The base of all errors that reach main(): a message for the user and an exit code. Errors take
// the parts of their message as concat() does.
class Error : public std::runtime_error {
 public:
  template <class... Parts>
  explicit Error(ExitCode code, const Parts&... message)
      : std::runtime_error(concat(message...)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// One or more located mistakes in what the user wrote. what() lists all of them, one per line.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
  template <class... Parts>
  explicit ConfigError(const SourceLoc& loc, const Parts&... message)
      : ConfigError(std::vector<Diagnostic>{{loc, concat(message...)}}) {}
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

enum class Controls;  // base/text.h; the first value keeps none

// A file is missing, damaged or of another kind than its name claims. The message starts with the
// path. Both are made printable(), so that names in them cannot control a terminal or add lines.
class DataError : public Error {
 public:
  template <class... Parts>
  explicit DataError(const std::string& path, const Parts&... message)
      : DataError(path, Controls{}, message...) {}
  // For a message of several lines: `kept` is kLines.
  template <class... Parts>
  DataError(const std::string& path, Controls kept, const Parts&... message)
      : Error(kExitData, print(path, concat(message...), kept)) {}

 private:
  static std::string print(const std::string& path, const std::string& message, Controls kept);
};

// A device, a device library or a peer failed.
class DeviceError : public Error {
 public:
  template <class... Parts>
  explicit DeviceError(const Parts&... message) : Error(kExitDevice, message...) {}
};

// Another replica or worker has gone, hangs or has failed. The message names it.
class PeerError : public DeviceError {
 public:
  template <class... Parts>
  explicit PeerError(const Parts&... message) : DeviceError(message...) {}
};

// Something the program promises did not hold.
class CheckError : public Error {
 public:
  template <class... Parts>
  explicit CheckError(const Parts&... message) : Error(kExitCheck, message...) {}
};

}  // namespace trainer
