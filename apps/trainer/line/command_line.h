// A command line of commands with options. Only command_line.cpp includes CLI11, the library that
// reads it, because CLI11 takes long to compile.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace trainer::app {

// An option of a command. A copy stands for the same option, which lives as long as the command
// line. Each function returns the option, so that calls can be chained.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required() const;
  Option choices(const std::vector<std::string>& values) const;
  Option in_range(int low, int high) const;
  Option in_range(double low, double high) const;
  Option at_least_one() const;  // a whole number
  Option not_negative() const;
  Option positive() const;
  Option excludes(const Option& other) const;
  Option excludes(std::initializer_list<const char*> names) const;
  Option needs(const Option& other) const;
  // Accepts `low` to `high` values.
  Option expected(int low, int high) const;
  // Accepts one value per occurrence; a list otherwise takes all values that follow.
  Option one_value_each() const;
  Option delimiter(char delimiter) const;
  // Calls the action of add_action() when the option is read, so that actions of several options
  // run in the order of the command line.
  Option in_order() const;

 private:
  CLI::Option* option_;
};

// A command, to which options are added. It lives as long as the command line, as do the values of
// its options.
class Command {
 public:
  Command(CLI::App& app, int& code) : app_(&app), code_(&code) {}

  // Adds an option, or a positional argument if `name` has no dashes. "--folds K" also gives the
  // name of the value in the help, as for all options; the default is the name of its type. T is a
  // text, a number, or a list or optional of these.
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& help) const;
  Option add_flag(const std::string& name, bool& value, const std::string& help) const;
  // Calls `take` with the value of the option.
  Option add_action(const std::string& name, const std::function<void(const std::string&)>& take,
                    const std::string& help) const;
  Option add_list_action(const std::string& name,
                         const std::function<void(const std::vector<std::string>&)>& take,
                         const std::string& help) const;
  void remove_option(const std::string& name) const;
  // Sets what the command does once its options are read; `work` returns the exit code.
  void run(const std::function<int()>& work) const;

 private:
  CLI::App* app_;
  int* code_;
};

// An option as completions and the manual page show it.
struct OptionDescription {
  std::string name;                                  // the name of a positional argument
  std::vector<std::string> short_names, long_names;  // the dashes are left out
  std::string type_name, help;
  std::vector<std::string> values;  // the values of choices()
  bool is_positional = false, is_required = false, takes_value = false;

  bool has_long_name(const std::string& long_name) const;
  // Returns the names with their dashes, the short ones first.
  std::vector<std::string> flags() const {
    std::vector<std::string> flags;
    for (const std::string& letter : short_names) flags.push_back("-" + letter);
    for (const std::string& word : long_names) flags.push_back("--" + word);
    return flags;
  }
};

struct CommandDescription {
  std::string name, help, footer;
  std::vector<OptionDescription> options;
};

class CommandLine {
 public:
  // `version` is printed for --version.
  CommandLine(const std::string& program, const std::string& help, const std::string& version,
              const std::string& version_help);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command add_command(const std::string& name, const std::string& help);
  // Sets the text at the end of the help of a command, or of the program for "".
  void set_footer(const std::string& command, const std::string& footer);

  // Describes the program as a command with an empty name and without options.
  CommandDescription program() const;
  // Describes the commands in the order in which they were added.
  std::vector<CommandDescription> commands() const;

  // Reads the words behind the program's name and runs the command that they name. Prints help and
  // errors of the command line. Wraps help at `columns`, the width of a terminal, where it is
  // given. Returns the exit code, and passes on what the command throws.
  int run(std::vector<std::string> words, std::optional<int> columns);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// Call these from Command::run() for rules over several options. They end the program with a
// message about the option `name`.
[[noreturn]] void reject_value(const std::string& name, const std::string& message);
[[noreturn]] void reject_missing(const std::string& name, const std::string& needed);
// Returns the message for a text that is not a whole number from `low` to `high`, and "" for one
// that is.
std::string check_range(const std::string& text, int low, int high);

// Returns the version of CLI11.
const char* command_line_library_version();

}  // namespace trainer::app
