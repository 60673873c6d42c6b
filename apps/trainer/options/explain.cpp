// What a config may have: its keys, their schema, and the backbones.
#include "commands/explain/explain.h"

#include <iostream>

#include "base/error.h"
#include "commands/explain/reference.h"
#include "commands/models/models.h"
#include "config/config.h"
#include "options/commands.h"

namespace trainer::app {

void add_explain(CommandLine& line) {
  struct Arguments {
    std::string key;
    bool all = false, json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("explain", "What a key of a config means");
  command.add_option(
      "key", arguments->key,
      "A key such as optimizer.adam, its end, or a part of it, which lists all keys that "
      "contain it; the sections when left out");
  const Option all = command.add_flag("--all", arguments->all, "The whole reference, as Markdown");
  command.add_flag("--json", arguments->json, "One JSON object; of all keys without KEY")
      .excludes(all);
  command.run([arguments] {
    std::cout << (arguments->all    ? commands::reference()
                  : arguments->json ? commands::explain_json(arguments->key)
                                    : commands::explain(arguments->key));
    return kExitOk;
  });
}

void add_schema(CommandLine& line) {
  line.add_command("schema", "JSON Schema of a config").run([] {
    std::cout << config::json_schema() << '\n';
    return kExitOk;
  });
}

void add_models(CommandLine& line) {
  const Command command =
      line.add_command("models", "The backbones, with parameters, FLOP and weights");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "One JSON object");
  command.run([json] {
    (*json ? commands::print_backbones_json : commands::print_backbones)(std::cout);
    return kExitOk;
  });
}

}  // namespace trainer::app
