// What a config and results may have: their keys, and the schema of these.
#include "commands/explain/explain.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "commands/explain/catalogue.h"
#include "commands/explain/reference.h"
#include "config/config.h"
#include "options/commands.h"
#include "results/json_schema.h"

namespace trainer::app {

void add_explain(CommandLine& line) {
  struct Arguments {
    std::string key, result;
    bool all = false, json = false, outputs = false;
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
  const Option outputs =
      command.add_flag("--outputs", arguments->outputs, "The reference of all outputs, as Markdown")
          .excludes(all);
  command
      .add_option("--result", arguments->result,
                  "The keys of a file of a run or of the lines of a command: run, train, evaluate, "
                  "calibration, crossval, ...")
      .excludes(all)
      .excludes(outputs);
  command.run([arguments] {
    std::cout << (!arguments->result.empty() ? commands::explain_result(arguments->result)
                  : arguments->outputs       ? commands::output_reference()
                  : arguments->all           ? commands::reference()
                  : arguments->json          ? commands::explain_json(arguments->key)
                                             : commands::explain(arguments->key));
    return kExitOk;
  });
}

void add_schema(CommandLine& line) {
  const Command command = line.add_command("schema", "JSON Schema of a config or a result");
  const auto result = std::make_shared<std::string>();
  command.add_option("--result", *result,
                     "A file of a run or the lines of a command, as for explain --result");
  command.run([result] {
    std::cout << (result->empty() ? config::json_schema()
                                  : to_json_line(results::to_json_schema(
                                        commands::find_description(*result).form)))
              << '\n';
    return kExitOk;
  });
}

}  // namespace trainer::app
