#include "commands/weights/weights.h"

#include "context.h"
#include "options/commands.h"

namespace trainer::app {

void add_weights(CommandLine& line) {
  const auto arguments = std::make_shared<commands::WeightsArguments>();
  const Command command =
      line.add_command("weights", "ImageNet weights of the backbones: list them, or download some");
  command.add_option("name", arguments->names,
                     "Backbones whose weights to download: into $WEIGHTS_DIR, else `weights` if "
                     "this folder exists, else ~/.keras/models; a list of all when left out");
  command.add_flag("--json", arguments->json, "JSON objects, one per line");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
