#include <iostream>

#include "commands.h"
#include "train/open.h"

namespace trainer::app {

int validate(const std::vector<std::string>& paths,
             const std::vector<config::Override>& overrides) {
  int code = kExitOk;
  for (const std::string& path : paths) {
    try {
      train::check_model(config::load_config(path, overrides, environment()).config);
      std::cout << path << ": ok\n";
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
      code = error.code();
    }
  }
  return code;
}

}  // namespace trainer::app
