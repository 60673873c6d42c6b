// The manual page, made from the command line's own definition.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "commands.h"
#include "commands/explain/explain.h"

namespace trainer::app {
namespace {

// Text for roff: no escapes, no dash that would become a hyphen, no request at the start of a line.
std::string roff(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    const bool at_start = result.empty() || result.back() == '\n';
    if (at_start && (letter == '.' || letter == '\'')) result += "\\&";
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else if (letter == '\'') {
      result += "\\(aq";
    } else if (letter == '^') {
      result += "\\(ha";
    } else if (letter == '~') {
      result += "\\(ti";
    } else if (letter == '`') {
      result += "\\(ga";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

void entry(std::ostream& out, const std::string& term, const std::string& text) {
  out << ".TP\n" << term << '\n' << roff(text) << '\n';
}

// "\fB--epochs\fR \fIFLOAT\fR"
std::string list_names(const CLI::Option& option) {
  std::string names;
  const auto add = [&](const std::string& name) {
    names += (names.empty() ? "" : ", ") + bold(name);
  };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) add("--" + name);
  if (option.get_items_expected_max() > 0) names += ' ' + italic(option.get_type_name());
  return names;
}

bool is_positional(const CLI::Option& option) {
  return option.get_positional() && !option.nonpositional();
}

std::vector<const CLI::Option*> list_options(const CLI::App& command, bool positional) {
  return command.get_options(
      [&](const CLI::Option* option) { return is_positional(*option) == positional; });
}

void print_options(const CLI::App& command, std::ostream& out) {
  for (const CLI::Option* option : list_options(command, true)) {
    entry(out, italic(option->get_name()), option->get_description());
  }
  for (const CLI::Option* option : list_options(command, false)) {
    if (!option->check_lname("help")) entry(out, list_names(*option), option->get_description());
  }
}

// The lines below "Examples:" in the footer.
void print_examples(const CLI::App& command, std::ostream& out) {
  std::istringstream footer(command.get_footer());
  std::string line;
  bool any = false;
  while (std::getline(footer, line)) {
    if (!line.starts_with("  ")) continue;
    if (!any) out << ".PP\n.nf\n";
    any = true;
    out << roff(line) << '\n';
  }
  if (any) out << ".fi\n";
}

void print_command(const CLI::App& command, const std::string& name, std::ostream& out) {
  std::string synopsis = bold("trainer " + name);
  for (const CLI::Option* option : list_options(command, true)) {
    const std::string word = italic(option->get_name());
    synopsis += option->get_required() ? ' ' + word : " [" + word + ']';
  }
  out << ".SS " << roff(name) << '\n'
      << synopsis << " [" << italic("options") << "]\n.PP\n"
      << roff(command.get_description()) << ".\n";
  const auto commands = command.get_subcommands({});
  print_options(command, out);
  print_examples(command, out);
  for (const CLI::App* inner : commands) print_command(*inner, name + ' ' + inner->get_name(), out);
}

void print_man(const CLI::App& app, std::ostream& out) {
  const std::string program = version();
  out << ".TH TRAINER 1 \"\" \"" << roff(program.substr(0, program.find(" (")))
      << "\" \"User Commands\"\n"
      << ".SH NAME\ntrainer \\- trains, evaluates and applies image classifiers from a YAML file\n"
      << ".SH SYNOPSIS\n"
      << bold("trainer") << ' ' << italic("command") << " [" << italic("options")
      << "]\n.SH DESCRIPTION\n"
      << roff(app.get_description()) << "\n.SH COMMANDS\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    print_command(*command, command->get_name(), out);
  }
  out << ".SH CONFIG\nThe sections of a config. " << bold("trainer explain") << ' ' << italic("key")
      << " explains the keys below them, and " << bold("trainer explain \\-\\-all")
      << " prints them all.\n";
  for (const commands::ExplainedSection& section : commands::explained_sections()) {
    if (!section.shared) entry(out, bold(section.name), section.keys.front().help);
  }
  out << ".SH ENVIRONMENT\n";
  entry(out, bold("WEIGHTS_DIR"), "Where weights: imagenet looks first.");
  entry(out, bold("TF_CONFIG"), "The cluster and this process's task in it, as in TensorFlow.");
  entry(out, bold("RANK") + ", " + bold("WORLD_SIZE"), "The same, as torchrun sets them.");
  entry(out, bold("TRAINER_SECRET"), "What the processes of one job prove to each other.");
  entry(out,
        bold("NUM_GPUS") + ", " + bold("BATCH_SIZE") + ", " + bold("LEARNING_RATE") + ", " +
            bold("SEEDS"),
        "Lists for sweep.");
  entry(out, bold("TRAINER_CUDA_PLUGIN") + ", " + bold("TRAINER_CUDA_PLAN_CACHE"),
        "Another library for GPUs; a folder that keeps cuDNN's plans and what parallel.autotune "
        "found, which else lies in $XDG_CACHE_HOME/trainer or ~/.cache/trainer.");
  entry(
      out, bold("TRAINER_CUDA_GRAPHS=0") + ", " + bold("TRAINER_CUDA_SYNC=1"),
      "To locate a fault on a GPU: launches each step's work anew instead of as a CUDA graph; also "
      "waits after each op, so that an error names the layer. Both are slow.");
  out << ".SH EXIT STATUS\n";
  entry(out, bold("0"), "Done.");
  entry(out, bold("2"), "The command line or the config is wrong.");
  entry(out, bold("3"), "Data, weights or a checkpoint cannot be used.");
  entry(out, bold("4"), "A device or another process failed.");
  entry(out, bold("5"), "A check did not hold.");
  entry(out, bold("75"), "Interrupted and saved.");
  out << ".SH EXAMPLES\n";
  print_examples(app, out);
}

}  // namespace

void add_man(CLI::App& app, int& code) {
  CLI::App* command = app.add_subcommand("man", "The manual page: trainer man | man -l -");
  command->callback([&app, &code] {
    print_man(app, std::cout);
    code = kExitOk;
  });
}

}  // namespace trainer::app
