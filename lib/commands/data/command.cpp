#include "commands/data/command.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "commands/data/check_print.h"
#include "commands/suspects/suspects.h"
#include "data/check.h"
#include "data/check_arrays.h"
#include "results/page/sheet.h"

namespace trainer::commands {
namespace {

// Throws if warnings of the check are errors.
void reject_warnings(const DataArguments& arguments) {
  if (!arguments.strict) return;
  throw Error(kExitData,
              "the check found what its report lists, and --strict makes these warnings errors");
}

int check_array_samples(const DataArguments& arguments, const config::Config& config,
                        std::ostream& out) {
  if (!arguments.group_by.empty()) {
    throw ConfigError({}, "--group-by is a pattern on the paths of image files; data.format: ",
                      spell(config.data.format), " is one of arrays; remove the option");
  }
  const data::ArrayCheck check = data::check_arrays(config.data, config.seed);
  out << (arguments.json ? to_json(check) : to_text(check));
  if (!check.clean()) reject_warnings(arguments);
  return kExitOk;
}

// Throws if training would end at a damaged file.
void reject_damaged_files(const config::Data& data, const data::DataCheck& check) {
  if (data.on_error != config::OnError::kFail) return;
  std::size_t damaged = 0;
  for (const data::SplitCheck& split : check.splits) damaged += split.damaged.size();
  if (damaged == 0) return;
  throw Error(kExitData, counted(damaged, "file"),
              " cannot be read, at which training would end; repair or remove ",
              damaged == 1 ? "it" : "them", ", or give data.on_error: skip or replace");
}

// Writes the suspects and, if it is asked for, their sheet.
int write_suspects_and_sheet(const DataArguments& arguments, const config::Config& config,
                             const Context& context) {
  check_output_path("--output", arguments.output, arguments.overwrite);
  std::error_code error;
  if (!config.data.relabel.empty() &&
      std::filesystem::equivalent(arguments.output, config.data.relabel, error)) {
    throw ConfigError({}, "--output: ", printable(arguments.output),
                      " is the file of data.relabel, whose corrections would be lost; "
                      "give another file");
  }
  if (!arguments.sheet.empty()) {
    check_output_path("--sheet", arguments.sheet, arguments.overwrite);
  }
  const JudgingRuns runs = find_judging_runs(arguments.suspects);
  const LabelledImages images(config);
  const Suspects suspects = find_suspects(images, runs, {{}, context.environment, context.warn});
  write_suspects(suspects, images, arguments.output);
  if (!arguments.sheet.empty()) {
    write_suspect_sheet(suspects, images, arguments.samples, arguments.sheet);
  }
  if (arguments.json) {
    context.out << to_json(suspects, images);
    if (!arguments.sheet.empty()) context.out << results::sheet_json(arguments.sheet);
    return kExitOk;
  }
  context.out << to_text(suspects, images);
  if (!arguments.sheet.empty()) context.out << "wrote " << printable(arguments.sheet) << '\n';
  context.out << "wrote " << printable(arguments.output)
              << ": correct its labels, empty those of images to leave out, and name the file in "
                 "data.relabel\n";
  return kExitOk;
}

}  // namespace

int execute(const DataArguments& arguments, const Context& context) {
  const config::Config config = load(arguments, context).config;
  if (!arguments.suspects.empty()) return write_suspects_and_sheet(arguments, config, context);
  if (!arguments.sheet.empty()) {
    check_output_path("--sheet", arguments.sheet, arguments.overwrite);
    results::write_sheet(config.data, config.seed, arguments.samples, arguments.sheet);
    if (arguments.json) {
      context.out << results::sheet_json(arguments.sheet);
    } else if (!arguments.quiet) {
      context.out << "wrote " << arguments.sheet << '\n';
    }
    return kExitOk;
  }
  if (!config::is_image_format(config.data.format))
    return check_array_samples(arguments, config, context.out);
  const data::DataCheck check = data::check_images(config.data, config.seed, arguments.group_by);
  context.out << (arguments.json ? to_json(check) : to_text(check)) << std::flush;
  reject_damaged_files(config.data, check);
  if (!check.clean()) reject_warnings(arguments);
  return kExitOk;
}

}  // namespace trainer::commands
