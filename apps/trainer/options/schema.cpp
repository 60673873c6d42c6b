#include <iostream>

#include "base/error.h"
#include "options/commands.h"

namespace trainer::app {

void add_schema(CommandLine& line) {
  line.add_command("schema", "JSON Schema of a config").run([] {
    std::cout << config::json_schema() << '\n';
    return kExitOk;
  });
}

}  // namespace trainer::app
