#include "commands/data/command.h"

#include "base/error.h"
#include "base/files/files.h"
#include "commands/data/array_print.h"
#include "commands/data/check_print.h"
#include "commands/data/sheet.h"
#include "data/check.h"
#include "data/check_arrays.h"

namespace trainer::commands {
namespace {

int check_array_samples(const DataArguments& arguments, const config::Config& config,
                        std::ostream& out) {
  if (!arguments.group_by.empty()) {
    throw ConfigError({},
                      concat("--group-by is a pattern on the paths of image files; data.format: ",
                             spell(config.data.format), " is one of arrays; remove the option"));
  }
  const data::ArrayCheck check = data::check_arrays(config.data, config.seed);
  out << (arguments.json ? to_json(check) : to_text(check));
  return check.clean() ? kExitOk : kExitData;
}

}  // namespace

int execute(const DataArguments& arguments, const Context& context) {
  const config::Config config = load(arguments, context).config;
  if (!arguments.sheet.empty()) {
    check_output_path("--sheet", arguments.sheet, arguments.overwrite);
    write_sheet(config.data, config.seed, arguments.samples, arguments.sheet);
    if (arguments.json) {
      context.out << sheet_json(arguments.sheet);
    } else if (!arguments.quiet) {
      context.out << "wrote " << arguments.sheet << '\n';
    }
    return kExitOk;
  }
  if (!config::is_image_format(config.data.format))
    return check_array_samples(arguments, config, context.out);
  const data::DataCheck check = data::check_images(config.data, config.seed, arguments.group_by);
  context.out << (arguments.json ? to_json(check) : to_text(check));
  return check.clean() ? kExitOk : kExitData;
}

}  // namespace trainer::commands
