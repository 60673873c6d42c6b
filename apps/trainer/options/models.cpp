// What a config may name: the backbones, their weights, and the devices.
#include "commands/models/models.h"

#include <memory>

#include "base/error.h"
#include "commands/devices/check_gpus.h"
#include "commands/devices/print_devices.h"
#include "commands/weights/weights.h"
#include "context.h"
#include "options/commands.h"

namespace trainer::app {

void add_models(CommandLine& line) {
  const Command command =
      line.add_command("models", "The backbones, with parameters, FLOP and weights");
  const auto arguments = std::make_shared<commands::ModelsArguments>();
  command.add_option(
      "name", arguments->name,
      "A backbone, of which the published weights are listed too, with their licence "
      "and preprocessing; all backbones when left out");
  command.add_flag("--json", arguments->json, "One JSON object");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_weights(CommandLine& line) {
  const auto arguments = std::make_shared<commands::WeightsArguments>();
  const Command command =
      line.add_command("weights", "ImageNet weights of the backbones: list them, or download some");
  command.add_option("name", arguments->names,
                     "Weights to download into $WEIGHTS_DIR: of backbones, else into `weights` if "
                     "this folder exists, else ~/.keras/models; by names such as "
                     "timm/resnet50.a1_in1k, else into the cache of their library; a list of all "
                     "backbones when left out");
  command.add_option("--search", arguments->search,
                     "List the names of timm, torchvision and Hugging Face with this text in the "
                     "name or in that of the backbone");
  command.add_flag("--json", arguments->json, "JSON objects, one per line");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_devices(CommandLine& line) {
  const Command command = line.add_command("devices", "What this machine offers");
  const auto json = std::make_shared<bool>(false), check = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "One JSON object");
  command.add_flag("--check", *check,
                   "Train for some steps on all GPUs and on one, and compare the parameters");
  command.run([json, check] {
    const commands::Context context = make_context();
    const backend::Platform platform = backend::read_platform(context.environment);
    (*json ? commands::print_devices_json : commands::print_devices)(platform, context.out);
    if (*check) commands::check_all_gpus(platform, context.environment, context.warn);
    return kExitOk;
  });
}

}  // namespace trainer::app
