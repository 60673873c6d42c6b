#include <iostream>

#include "commands.h"

namespace trainer::app {

int schema() {
  std::cout << config::json_schema() << '\n';
  return kExitOk;
}

}  // namespace trainer::app
