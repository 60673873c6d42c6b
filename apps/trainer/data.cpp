#include <iostream>

#include "base/error.h"
#include "commands.h"
#include "data/check.h"

namespace trainer::app {

int data(const DataArguments& arguments) {
  const config::Config config =
      config::load_config(arguments.path, arguments.overrides, environment()).config;
  if (!arguments.sheet.empty()) {
    data::write_sheet(config.data, config.seed, arguments.samples, arguments.sheet);
    if (arguments.json) {
      std::cout << data::sheet_json(arguments.sheet);
    } else if (!arguments.quiet) {
      std::cout << "wrote " << arguments.sheet << '\n';
    }
    return kExitOk;
  }
  const data::DataCheck check = data::check_images(config.data, config.seed, arguments.group_by);
  std::cout << (arguments.json ? data::to_json(check) : data::to_text(check));
  return check.clean() ? kExitOk : kExitData;
}

}  // namespace trainer::app
