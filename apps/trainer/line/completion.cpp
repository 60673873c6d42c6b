// Completion scripts for shells, made from the command line's own definition, so that a new command
// or option is completed without a line here.
#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/text.h"
#include "config/describe/schema.h"
#include "options/commands.h"

namespace trainer::app {
namespace {

using Words = std::vector<std::string>;

std::string joined(const Words& words) { return join(words, " "); }

// key= for --set.
Words settings() {
  Words keys;
  for (const std::string& key : config::settable_keys()) keys.push_back(key + "=");
  std::ranges::sort(keys);
  return keys;
}

Words list_names(const std::vector<CommandDescription>& commands) {
  Words names;
  for (const CommandDescription& command : commands) names.push_back(command.name);
  return names;
}

const OptionDescription* find_positional(const CommandDescription& command) {
  for (const OptionDescription& option : command.options) {
    if (option.is_positional) return &option;
  }
  return nullptr;
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

void print_sh(const std::vector<CommandDescription>& commands, const Dialect& shell) {
  std::cout << shell.start << R"(        # Behind -- of launch another command of trainer begins.
        if [[ $word == -- ]]; then command=; elif [[ -z $command && $word != -* ]]; then command=$word; fi
    done
    case "$command $before" in
)";
  for (const CommandDescription& command : commands) {
    for (const OptionDescription& option : command.options) {
      if (option.is_positional) continue;
      if (!option.takes_value || option.has_long_name("set")) continue;
      Words patterns;
      for (const std::string& name : option.flags())
        patterns.push_back("'" + command.name + " " + name + "'");
      std::cout << "        " << join(patterns, " | ") << ") ";
      const Words& values = option.values;
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
            << joined(list_names(commands)) << " --help --version\" ;;\n";
  for (const CommandDescription& command : commands) {
    Words words;
    for (const OptionDescription& option : command.options) {
      if (option.is_positional) continue;
      for (const std::string& name : option.flags()) {
        if (name.starts_with("--")) words.push_back(name);
      }
    }
    if (const OptionDescription* positional = find_positional(command)) {
      for (const std::string& value : positional->values) words.push_back(value);
    }
    std::cout << "            " << command.name << ") offered=\"" << joined(words) << "\" ;;\n";
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

void print_fish(const std::vector<CommandDescription>& commands) {
  std::cout << "# Completion of trainer in fish: trainer completion fish | source\n";
  for (const CommandDescription& command : commands) {
    std::cout << "complete -c trainer -n __fish_use_subcommand -f -a " << command.name << " -d "
              << quoted(command.help) << '\n';
    const std::string start =
        "complete -c trainer -n '__fish_seen_subcommand_from " + command.name + "'";
    if (const OptionDescription* positional = find_positional(command)) {
      const Words& values = positional->values;
      if (!values.empty()) std::cout << start << " -a " << quoted(joined(values)) << '\n';
    }
    for (const OptionDescription& option : command.options) {
      if (option.is_positional) continue;
      std::cout << start;
      for (const std::string& name : option.short_names) std::cout << " -s " << name;
      for (const std::string& name : option.long_names) std::cout << " -l " << name;
      const Words values = option.has_long_name("set") ? settings() : option.values;
      if (option.takes_value) std::cout << " -r";
      if (!values.empty()) std::cout << " -f -a " << quoted(joined(values));
      std::cout << " -d " << quoted(option.help) << '\n';
    }
  }
}

// Prints the script that completes the commands and their options in `shell`.
int completion(const std::vector<CommandDescription>& commands, const std::string& shell) {
  if (shell == "fish") {
    print_fish(commands);
  } else {
    print_sh(commands, shell == "zsh" ? kZsh : kBash);
  }
  return kExitOk;
}

}  // namespace

void add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  const Command command =
      line.add_command("completion", "Shell completion: source <(trainer completion bash)");
  command.add_option("shell", *shell, "bash, zsh or fish")
      .required()
      .choices({"bash", "zsh", "fish"});
  command.run([shell, &line] { return completion(line.commands(), *shell); });
}

}  // namespace trainer::app
