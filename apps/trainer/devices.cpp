#include <iostream>

#include "backend/backend.h"
#include "commands.h"

namespace trainer::app {

int devices(bool json) {
  const auto backend = backend::open_cpu_backend({});
  if (json) {
    std::cout << "{\"event\":\"devices\",\"cpu\":\"" << backend->describe() << "\",\"gpus\":[]}\n";
  } else {
    std::cout << backend->describe() << "\nno GPU backend in this build\n";
  }
  return kExitOk;
}

}  // namespace trainer::app
