#include <iostream>

#include "commands.h"

namespace trainer::app {

int validate(const std::vector<std::string>& paths,
             const std::vector<config::Override>& overrides) {
  int code = kExitOk;
  for (const std::string& path : paths) {
    try {
      config::load_config(path, overrides, environment());
      std::cout << path << ": ok\n";
    } catch (const Error& error) {
      std::cerr << error.what() << '\n';
      code = error.code();
    }
  }
  return code;
}

}  // namespace trainer::app
