#include "commands/explain/explain.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/error.h"
#include "commands.h"
#include "commands/explain/reference.h"

namespace trainer::app {

void add_explain(CLI::App& app, int& code) {
  struct Arguments {
    std::string key;
    bool all = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("explain", "What a key of a config means");
  command->add_option("key", arguments->key,
                      "A key such as optimizer.adam, or its end; the sections when left out");
  command->add_flag("--all", arguments->all, "The whole reference, as Markdown");
  command->callback([arguments, &code] {
    std::cout << (arguments->all ? commands::reference() : commands::explain(arguments->key));
    code = kExitOk;
  });
}

}  // namespace trainer::app
