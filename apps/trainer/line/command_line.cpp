#include "line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "line/help_text.h"

namespace trainer::app {
namespace {

// Returns a check of a number. CLI11's own checks print ranges with 20 to 300 digits.
CLI::Validator check_number(const std::string& expected, const std::function<bool(double)>& fits) {
  return {[expected, fits](const std::string& text) {
            double value = 0;
            const bool right = CLI::detail::lexical_cast(text, value) && fits(value);
            return right ? std::string() : concat("expected ", expected, ", found ", text);
          },
          ""};
}

// Returns the values that CLI::IsMember permits, with which the type of an option is TEXT:{a,b}.
std::vector<std::string> list_values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return split_text(type.substr(open + 1, close - open - 1), ',');
}

// Adds an option with `add`, which takes its name. `name` may have that of its value behind a
// blank.
template <class Add>
Option add_named(const std::string& name, const Add& add) {
  const std::size_t blank = name.find(' ');
  CLI::Option& option = *add(name.substr(0, blank));
  if (blank != std::string::npos) option.type_name(name.substr(blank + 1));
  return Option(option);
}

CommandDescription describe(const CLI::App& app) {
  CommandDescription command{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) {
    OptionDescription& description = command.options.emplace_back();
    description.name = option->get_name();
    description.short_names = option->get_snames();
    description.long_names = option->get_lnames();
    description.type_name = option->get_type_name();
    description.help = option->get_description();
    description.values = list_values(*option);
    description.is_positional = option->get_positional() && !option->nonpositional();
    description.is_required = option->get_required();
    description.takes_value = option->get_items_expected_max() > 0;
  }
  return command;
}

}  // namespace

Option Option::required() const {
  option_->required();
  return *this;
}

Option Option::choices(const std::vector<std::string>& values) const {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option Option::in_range(int low, int high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::in_range(double low, double high) const {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option Option::at_least_one() const {
  option_->check(CLI::Validator(
      [](const std::string& text) {
        std::int64_t value = 0;
        const bool right = CLI::detail::lexical_cast(text, value) && value >= 1;
        return right ? "" : "expected a whole number of at least 1, found " + text;
      },
      ""));
  return *this;
}

Option Option::not_negative() const {
  option_->check(check_number("a number of at least 0", [](double value) { return value >= 0; }));
  return *this;
}

Option Option::positive() const {
  option_->check(check_number("a number greater than 0", [](double value) { return value > 0; }));
  return *this;
}

Option Option::excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

Option Option::excludes(std::initializer_list<const char*> names) const {
  for (const char* name : names) option_->excludes(name);
  return *this;
}

Option Option::needs(const Option& other) const {
  option_->needs(other.option_);
  return *this;
}

Option Option::expected(int low, int high) const {
  if (low == high) {
    option_->expected(low);
  } else {
    option_->expected(low, high);
  }
  return *this;
}

Option Option::one_value_each() const {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::delimiter(char delimiter) const {
  option_->delimiter(delimiter);
  return *this;
}

Option Option::in_order() const {
  option_->trigger_on_parse();
  return *this;
}

template <class T>
Option Command::add_option(const std::string& name, T& value, const std::string& help) const {
  return add_named(name, [&](const auto& flag) { return app_->add_option(flag, value, help); });
}
template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::int64_t>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::string>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<int>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<std::int64_t>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<double>&,
                                    const std::string&) const;

Option Command::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(*app_->add_flag(name, value, help));
}

Option Command::add_action(const std::string& name,
                           const std::function<void(const std::string&)>& take,
                           const std::string& help) const {
  return add_named(name, [&](const std::string& flag) {
    return app_->add_option_function<std::string>(flag, take, help);
  });
}

Option Command::add_list_action(const std::string& name,
                                const std::function<void(const std::vector<std::string>&)>& take,
                                const std::string& help) const {
  return add_named(name, [&](const std::string& flag) {
    return app_->add_option_function<std::vector<std::string>>(flag, take, help);
  });
}

void Command::remove_option(const std::string& name) const {
  app_->remove_option(app_->get_option(name));
}

void Command::run(const std::function<int()>& work) const {
  app_->callback([work, code = code_] { *code = work(); });
}

bool OptionDescription::has_long_name(const std::string& long_name) const {
  return std::ranges::find(long_names, long_name) != long_names.end();
}

struct CommandLine::Parser {
  CLI::App app;
  int code = kExitOk;
};

CommandLine::CommandLine(const std::string& program, const std::string& help,
                         const std::string& version, const std::string& version_help)
    : parser_(std::make_unique<Parser>()) {
  parser_->app.description(help);
  parser_->app.name(program);
  parser_->app.set_version_flag("--version", version, version_help);
  parser_->app.require_subcommand(1);
  parser_->app.failure_message([](const CLI::App* app, const CLI::Error& error) {
    const std::vector<CLI::App*> chosen = app->get_subcommands();
    const std::string command = chosen.empty() ? "" : chosen.front()->get_name() + ' ';
    return concat("error: ", error.what(), "; `", app->get_name(), ' ', command,
                  "--help` lists what it takes\n");
  });
}

CommandLine::~CommandLine() = default;

Command CommandLine::add_command(const std::string& name, const std::string& help) {
  return {*parser_->app.add_subcommand(name, help), parser_->code};
}

void CommandLine::set_footer(const std::string& command, const std::string& footer) {
  CLI::App* app = command.empty() ? &parser_->app : parser_->app.get_subcommand(command);
  app->footer(footer);
}

CommandDescription CommandLine::program() const {
  return {"", parser_->app.get_description(), parser_->app.get_footer(), {}};
}

std::vector<CommandDescription> CommandLine::commands() const {
  std::vector<CommandDescription> commands;
  for (const CLI::App* command : std::as_const(parser_->app).get_subcommands({})) {
    commands.push_back(describe(*command));
  }
  return commands;
}

int CommandLine::run(std::vector<std::string> words, std::optional<int> columns) {
  std::ranges::reverse(words);  // CLI11 takes them from the end
  try {
    parser_->app.parse(std::move(words));
  } catch (const CLI::Success& success) {
    std::ostringstream text;
    const int code = parser_->app.exit(success, text);
    std::cout << (columns ? wrap_help(text.str(), *columns) : text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    parser_->app.exit(error);
    return kExitConfig;
  }
  return parser_->code;
}

void reject_value(const std::string& name, const std::string& message) {
  throw CLI::ValidationError(name, message);
}

void reject_missing(const std::string& name, const std::string& needed) {
  throw CLI::RequiresError(name, needed);
}

std::string check_range(const std::string& text, int low, int high) {
  std::string checked = text;
  return CLI::Range(low, high)(checked);
}

const char* command_line_library_version() { return CLI11_VERSION; }

}  // namespace trainer::app
