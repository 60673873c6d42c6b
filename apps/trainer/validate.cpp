#include <iostream>

#include "commands.h"
#include "train/open.h"
#include "train/warnings.h"

namespace trainer::app {

int validate(const std::vector<std::string>& paths,
             const std::vector<config::Override>& overrides) {
  int code = kExitOk;
  for (const std::string& path : paths) {
    try {
      const config::Config config = config::load_config(path, overrides, environment()).config;
      train::check_model(config);
      for (const std::string& line :
           train::config_warnings(config, train::expected_sample(config), std::nullopt)) {
        warn(line);
      }
      std::cout << path << ": ok\n";
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
      code = error.code();
    }
  }
  return code;
}

}  // namespace trainer::app
