// The manual page, made from the command line's own definition.
#include <iostream>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "commands/explain/explain.h"
#include "options/commands.h"
#include "version.h"

namespace trainer::app {
namespace {

// Text for roff: no escapes, no dash that would become a hyphen, no request at the start of a line.
std::string roff(const std::string& text) {
  static const std::map<char, const char*> kEscapes{{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
                                                    {'^', "\\(ha"}, {'~', "\\(ti"}, {'`', "\\(ga"}};
  std::string result;
  for (const char letter : text) {
    const bool at_start = result.empty() || result.back() == '\n';
    if (at_start && (letter == '.' || letter == '\'')) result += "\\&";
    const auto escape = kEscapes.find(letter);
    result += escape == kEscapes.end() ? std::string(1, letter) : escape->second;
  }
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

void entry(std::ostream& out, const std::string& term, const std::string& text) {
  out << ".TP\n" << term << '\n' << roff(text) << '\n';
}

// "\fB--epochs\fR \fIFLOAT\fR"
std::string list_names(const OptionDescription& option) {
  std::vector<std::string> names;
  for (const std::string& flag : option.flags()) names.push_back(bold(flag));
  return join(names) + (option.takes_value ? ' ' + italic(option.type_name) : "");
}

void print_options(const CommandDescription& command, std::ostream& out) {
  for (const OptionDescription& option : command.options) {
    if (option.is_positional) entry(out, italic(option.name), option.help);
  }
  for (const OptionDescription& option : command.options) {
    if (option.is_positional || option.has_long_name("help")) continue;
    entry(out, list_names(option), option.help);
  }
}

// The lines below "Examples:" in the footer.
void print_examples(const CommandDescription& command, std::ostream& out) {
  std::istringstream footer(command.footer);
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

void print_command(const CommandDescription& command, std::ostream& out) {
  std::string synopsis = bold("trainer " + command.name);
  for (const OptionDescription& option : command.options) {
    if (!option.is_positional) continue;
    const std::string word = italic(option.name);
    synopsis += option.is_required ? ' ' + word : " [" + word + ']';
  }
  out << ".SS " << roff(command.name) << '\n'
      << synopsis << " [" << italic("options") << "]\n.PP\n"
      << roff(command.help) << ".\n";
  print_options(command, out);
  print_examples(command, out);
}

void print_man(const CommandLine& line, std::ostream& out) {
  const CommandDescription described = line.program();
  const std::string program = version();
  out << ".TH TRAINER 1 \"\" \"" << roff(program.substr(0, program.find(" (")))
      << "\" \"User Commands\"\n"
      << ".SH NAME\ntrainer \\- trains, evaluates and applies image classifiers from a YAML file\n"
      << ".SH SYNOPSIS\n"
      << bold("trainer") << ' ' << italic("command") << " [" << italic("options")
      << "]\n.SH DESCRIPTION\n"
      << roff(described.help) << "\n.SH COMMANDS\n";
  for (const CommandDescription& command : line.commands()) print_command(command, out);
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
  entry(out, bold("TRAINER_GPU_CHECK"),
        "The seconds that the check of several GPUs before their first run may take, which are 60; "
        "0: no check.");
  entry(
      out, bold("TRAINER_CUDA_GRAPHS=0") + ", " + bold("TRAINER_CUDA_SYNC=1"),
      "To locate a fault on a GPU: launches each step's work anew instead of as a CUDA graph; also "
      "waits after each op, so that an error names the layer. Both are slow.");
  entry(out, bold("TRAINER_CUDA_LARGE_TENSORS=1"),
        "Gives cuDNN tensors of 2^31 elements and more, which is otherwise an error.");
  out << ".SH EXIT STATUS\n";
  entry(out, bold("0"), "Done.");
  entry(out, bold("2"), "The command line or the config is wrong.");
  entry(out, bold("3"), "Data, weights or a checkpoint cannot be used.");
  entry(out, bold("4"), "A device or another process failed.");
  entry(out, bold("5"), "A check did not hold.");
  entry(out, bold("75"), "Interrupted and saved.");
  out << ".SH EXAMPLES\n";
  print_examples(described, out);
}

}  // namespace

void add_man(CommandLine& line) {
  line.add_command("man", "The manual page: trainer man | man -l -").run([&line] {
    print_man(line, std::cout);
    return kExitOk;
  });
}

}  // namespace trainer::app
