// Completion scripts for shells, made from the command line's own definition, so that a new command
// or option is completed without a line here.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "config/describe/schema.h"

namespace trainer::app {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) { return join(words, " "); }

std::vector<const CLI::Option*> list_flags(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

Words option_words(const CLI::Option& option) {
  Words names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// The values that CLI::IsMember permits: its type reads TEXT:{a,b}.
Words list_values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  Words values;
  std::string value;
  for (const char letter : type.substr(open + 1, close - open - 1) + ",") {
    if (letter != ',') {
      value += letter;
    } else {
      values.push_back(std::exchange(value, {}));
    }
  }
  return values;
}

// key= for --set.
Words settings() {
  Words keys;
  for (const std::string& key : config::settable_keys()) keys.push_back(key + "=");
  std::sort(keys.begin(), keys.end());
  return keys;
}

Words list_commands(const CLI::App& app) {
  Words names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

const CLI::Option* first_positional(const CLI::App& command) {
  const auto positional = command.get_options([](const CLI::Option* option) {
    return option->get_positional() && !option->nonpositional();
  });
  return positional.empty() ? nullptr : positional.front();
}

// ---- bash and zsh -------------------------------------------------------------------------------

// What differs between the two: how a function learns the words of the line, and answers.
struct Dialect {
  const char* start;     // up to the loop over the words before the cursor
  const char* settings;  // behind the keys of --set
  const char* files;     // answers with file names
  const char* end;       // answers with $offered
};

constexpr Dialect kBash{
    R"(# Completion of trainer in bash: source <(trainer completion bash)
_trainer() {
    local before=${COMP_WORDS[COMP_CWORD-1]} command= word offered= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; ++i)); do
        word=${COMP_WORDS[i]}
)",
    R"(            compopt -o nospace 2> /dev/null || true ;;
)",
    "return",
    R"(    COMPREPLY=($(compgen -W "$offered" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o bashdefault -o default -F _trainer trainer
)"};

constexpr Dialect kZsh{
    R"(#compdef trainer
# Completion of trainer in zsh: source <(trainer completion zsh), or as _trainer in a folder of $fpath
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
_trainer() {
    local before=${words[CURRENT-1]} command= word offered= i
    local -a suffix
    for ((i = 2; i < CURRENT; ++i)); do
        word=${words[i]}
)",
    R"(            suffix=(-S '') ;;
)",
    "_files; return",
    R"(    compadd "${suffix[@]}" -- ${=offered} || _files
}
compdef _trainer trainer
# Autoloaded, this file is the body of the function's first call.
if [[ $funcstack[1] == _trainer ]]; then _trainer "$@"; fi
)"};

void print_sh(const CLI::App& app, const Dialect& shell) {
  std::cout << shell.start << R"(        # Behind -- of launch another command of trainer begins.
        if [[ $word == -- ]]; then command=; elif [[ -z $command && $word != -* ]]; then command=$word; fi
    done
    case "$command $before" in
)";
  for (const CLI::App* command : app.get_subcommands({})) {
    for (const CLI::Option* option : list_flags(*command)) {
      if (!takes_value(*option) || option->check_lname("set")) continue;
      Words patterns;
      for (const std::string& name : option_words(*option))
        patterns.push_back("'" + command->get_name() + " " + name + "'");
      std::cout << "        " << join(patterns, " | ") << ") ";
      const Words values = list_values(*option);
      if (values.empty()) {
        std::cout << shell.files << " ;;\n";
      } else {
        std::cout << "offered=\"" << joined(values) << "\" ;;\n";
      }
    }
  }
  // A setting ends with '=': what follows is the user's.
  std::cout << "        *' --set')\n            offered=\"" << joined(settings()) << "\"\n"
            << shell.settings;
  std::cout << R"(    esac
    if [[ -z $offered ]]; then
        case "$command" in
            '') offered=")"
            << joined(list_commands(app)) << " --help --version\" ;;\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    Words words;
    for (const CLI::Option* option : list_flags(*command)) {
      for (const std::string& name : option_words(*option)) {
        if (name.starts_with("--")) words.push_back(name);
      }
    }
    if (const CLI::Option* positional = first_positional(*command)) {
      for (const std::string& value : list_values(*positional)) words.push_back(value);
    }
    std::cout << "            " << command->get_name() << ") offered=\"" << joined(words)
              << "\" ;;\n";
  }
  std::cout << R"(        esac
    fi
)" << shell.end;
}

// ---- fish ---------------------------------------------------------------------------------------

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) result += letter == '\'' ? "\\'" : std::string(1, letter);
  return result + "'";
}

void print_fish(const CLI::App& app) {
  std::cout << "# Completion of trainer in fish: trainer completion fish | source\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    std::cout << "complete -c trainer -n __fish_use_subcommand -f -a " << command->get_name()
              << " -d " << quoted(command->get_description()) << '\n';
    const std::string start =
        "complete -c trainer -n '__fish_seen_subcommand_from " + command->get_name() + "'";
    if (const CLI::Option* positional = first_positional(*command)) {
      const Words values = list_values(*positional);
      if (!values.empty()) std::cout << start << " -a " << quoted(joined(values)) << '\n';
    }
    for (const CLI::Option* option : list_flags(*command)) {
      std::cout << start;
      for (const std::string& name : option->get_snames()) std::cout << " -s " << name;
      for (const std::string& name : option->get_lnames()) std::cout << " -l " << name;
      const Words values = option->check_lname("set") ? settings() : list_values(*option);
      if (takes_value(*option)) std::cout << " -r";
      if (!values.empty()) std::cout << " -f -a " << quoted(joined(values));
      std::cout << " -d " << quoted(option->get_description()) << '\n';
    }
  }
}

// Prints the script that completes the commands and options of `app` in `shell`.
int completion(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") {
    print_fish(app);
  } else {
    print_sh(app, shell == "zsh" ? kZsh : kBash);
  }
  return kExitOk;
}

}  // namespace

void add_completion(CLI::App& app, int& code) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("completion", "Shell completion: source <(trainer completion bash)");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app, &code] { code = completion(app, *shell); });
}

}  // namespace trainer::app
