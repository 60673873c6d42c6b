#include <iostream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "options/commands.h"
#include "commands/data/array_print.h"
#include "commands/data/check_print.h"
#include "commands/data/sheet.h"
#include "commands/suspects/suspects.h"
#include "data/check.h"
#include "data/check_arrays.h"
#include "options/options.h"

namespace trainer::app {
namespace {

struct DataArguments : ConfigArguments {
  std::string group_by;  // regular expression on paths; its group must stay within one split
  std::string sheet;     // write a contact sheet here in place of checking
  std::string suspects;  // a run or folder of crossval; find suspects in place of checking
  std::string output = "suspects.csv";  // of --suspects
  bool overwrite = false;               // a sheet or suspects that exist
  std::int64_t samples = 64;
};

int check_array_samples(const DataArguments& arguments, const config::Config& config) {
  if (!arguments.group_by.empty()) {
    throw ConfigError({},
                      concat("--group-by is a pattern on the paths of image files; data.format: ",
                             spell(config.data.format), " is one of arrays; remove the option"));
  }
  const data::ArrayCheck check = data::check_arrays(config.data, config.seed);
  std::cout << (arguments.json ? commands::to_json(check) : commands::to_text(check));
  return check.clean() ? kExitOk : kExitData;
}

int find_suspects(const DataArguments& arguments, const config::Config& config) {
  check_output_path("--output", arguments.output, arguments.overwrite);
  std::error_code error;
  if (!config.data.relabel.empty() &&
      std::filesystem::equivalent(arguments.output, config.data.relabel, error)) {
    throw ConfigError({}, concat("--output: ", printable(arguments.output),
                                 " is the file of data.relabel, whose corrections would be lost; "
                                 "give another file"));
  }
  if (!arguments.sheet.empty()) {
    check_output_path("--sheet", arguments.sheet, arguments.overwrite);
  }
  const commands::JudgingRuns runs = commands::find_judging_runs(arguments.suspects);
  const commands::LabelledImages images(config);
  const commands::Suspects suspects = commands::find_suspects(images, runs, environment(), warn);
  commands::write_suspects(suspects, images, arguments.output);
  if (!arguments.sheet.empty()) {
    commands::write_suspect_sheet(suspects, images, arguments.samples, arguments.sheet);
  }
  if (arguments.json) {
    std::cout << commands::to_json(suspects, images);
    if (!arguments.sheet.empty()) std::cout << commands::sheet_json(arguments.sheet);
    return kExitOk;
  }
  std::cout << commands::to_text(suspects, images);
  if (!arguments.sheet.empty()) std::cout << "wrote " << printable(arguments.sheet) << '\n';
  std::cout << "wrote " << printable(arguments.output)
            << ": correct its labels, empty those of images to leave out, and name the file in "
               "data.relabel\n";
  return kExitOk;
}

int data(const DataArguments& arguments) {
  const config::Config config = load(arguments).config;
  if (!arguments.suspects.empty()) return find_suspects(arguments, config);
  if (!arguments.sheet.empty()) {
    check_output_path("--sheet", arguments.sheet, arguments.overwrite);
    commands::write_sheet(config.data, config.seed, arguments.samples, arguments.sheet);
    if (arguments.json) {
      std::cout << commands::sheet_json(arguments.sheet);
    } else if (!arguments.quiet) {
      std::cout << "wrote " << arguments.sheet << '\n';
    }
    return kExitOk;
  }
  if (!config::is_image_format(config.data.format)) return check_array_samples(arguments, config);
  const data::DataCheck check = data::check_images(config.data, config.seed, arguments.group_by);
  std::cout << (arguments.json ? commands::to_json(check) : commands::to_text(check));
  return check.clean() ? kExitOk : kExitData;
}

}  // namespace

void add_data(CommandLine& line) {
  const auto arguments = std::make_shared<DataArguments>();
  const Command command = line.add_command(
      "data", "Check the samples of a config: counts, sizes, damage, leaks; or look at them");
  add_config(command, *arguments);
  command.add_option("--group-by", arguments->group_by,
                     "Regular expression (RE2) on paths whose group must stay within one split; "
                     "data.group_by when left out");
  const Option suspects =
      command
          .add_option("--suspects", arguments->suspects,
                      "Find images whose labels are likely wrong, by the folder of `trainer "
                      "crossval`, or by a run for its validation split alone")
          .type_name("RUN");
  command
      .add_option("--output", arguments->output,
                  "Write the images of --suspects to this CSV file; suspects.csv here when left "
                  "out")
      .type_name("FILE")
      .needs(suspects);
  command
      .add_option("--sheet", arguments->sheet,
                  "Write training images as the model gets them, or those of --suspects, to this "
                  "PNG")
      .type_name("FILE");
  command.add_flag("--overwrite", arguments->overwrite, "Replace files that exist");
  command.add_option("--samples", arguments->samples, "Images on the sheet").at_least_one();
  command.run([arguments] { return data(*arguments); });
}

}  // namespace trainer::app
