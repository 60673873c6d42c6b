#include <iostream>

#include "base/error.h"
#include "base/files/files.h"
#include "commands.h"
#include "commands/data/array_print.h"
#include "commands/data/check_print.h"
#include "commands/data/sheet.h"
#include "data/check.h"
#include "data/check_arrays.h"
#include "options.h"

namespace trainer::app {
namespace {

struct DataArguments : ConfigArguments {
  std::string group_by;    // regular expression on paths; its group must stay within one split
  std::string sheet;       // write a contact sheet here in place of checking
  bool overwrite = false;  // a sheet that exists
  std::int64_t samples = 64;
};

int check_array_samples(const DataArguments& arguments, const config::Config& config) {
  if (!arguments.group_by.empty()) {
    throw ConfigError(
        {}, concat("--group-by is a pattern on the paths of image files; data.format: ",
                   config::spell(config.data.format), " is one of arrays; remove the option"));
  }
  const data::ArrayCheck check = data::check_arrays(config.data, config.seed);
  std::cout << (arguments.json ? commands::to_json(check) : commands::to_text(check));
  return check.clean() ? kExitOk : kExitData;
}

int data(const DataArguments& arguments) {
  const config::Config config = load(arguments).config;
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
  command
      .add_option("--sheet", arguments->sheet,
                  "Write training images as the model gets them to this PNG")
      .type_name("FILE");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a sheet that exists");
  command.add_option("--samples", arguments->samples, "Images on the sheet").at_least_one();
  command.run([arguments] { return data(*arguments); });
}

}  // namespace trainer::app
