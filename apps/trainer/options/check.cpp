// Commands that check a config, its samples, and what training promises.
#include "commands/data/command.h"
#include "commands/validate/command.h"
#include "commands/verify/verify.h"
#include "options/options.h"

namespace trainer::app {

void add_validate(CommandLine& line) {
  const auto arguments = std::make_shared<commands::ValidateArguments>();
  const Command command = line.add_command("validate", "All errors of configs at once");
  command.add_option("configs", arguments->configs, "Config files").required();
  add_overrides(command, arguments->overrides);
  command.add_flag("--json", arguments->json, "One JSON object per config on standard output");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_data(CommandLine& line) {
  const auto arguments = std::make_shared<commands::DataArguments>();
  const Command command = line.add_command(
      "data", "Check the samples of a config: counts, sizes, damage, leaks; or look at them");
  add_config(command, *arguments);
  command.add_option("--group-by", arguments->group_by,
                     "Regular expression (RE2) on paths whose group must stay within one split; "
                     "data.group_by when left out");
  const Option suspects =
      command.add_option("--suspects RUN", arguments->suspects,
                         "Find images whose labels are likely wrong, by the folder of `trainer "
                         "crossval`, or by a run for its validation split alone");
  command
      .add_option("--output FILE", arguments->output,
                  "Write the images of --suspects to this CSV file; suspects.csv here when left "
                  "out")
      .needs(suspects);
  command.add_option(
      "--sheet FILE", arguments->sheet,
      "Write training images as the model gets them, or those of --suspects, to this PNG");
  command.add_flag("--overwrite", arguments->overwrite, "Replace files that exist");
  command.add_flag("--strict", arguments->strict,
                   "End with an error for warnings, too, such as a photo in two splits or classes");
  command.add_option("--samples", arguments->samples, "Images on the sheet").at_least_one();
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_verify(CommandLine& line) {
  const auto arguments = std::make_shared<commands::VerifyArguments>();
  const Command command = line.add_command(
      "verify", "Prove by training that replicas, or a resumed run, give what they should");
  command.add_option("what", arguments->what, "replicas or resume")
      .required()
      .choices({"replicas", "resume"});
  add_config(command, *arguments);
  // Here a list to compare, not one number for the config.
  command.remove_option("--replicas");
  command
      .add_option("--replicas", arguments->options.replicas,
                  "Numbers of replicas to compare; default 1,2,4")
      .delimiter(',')
      .at_least_one();
  command.add_option("--steps", arguments->options.steps, "Length of the runs")
      .in_range(2, 1000000000);
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
