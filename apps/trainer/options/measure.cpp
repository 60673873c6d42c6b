// Commands that measure what a config takes on this machine.
#include "commands/benchmark/benchmark.h"
#include "commands/find/find.h"
#include "commands/profile/command.h"
#include "options/options.h"

namespace trainer::app {

void add_benchmark(CommandLine& line) {
  const auto arguments = std::make_shared<commands::BenchmarkArguments>();
  const Command command = line.add_command("benchmark", "Throughput, after a warm-up");
  add_config(command, *arguments);
  command.add_option("--seconds", arguments->seconds, "Time to measure").positive();
  const Option input_only =
      command.add_flag("--input-only", arguments->input_only, "The input pipeline alone");
  command
      .add_flag("--normalize", arguments->normalize,
                "Let the loader's threads normalize to float32 too, as other programs' do")
      .needs(input_only);
  command.add_flag("--predict", arguments->predict, "Predictions in place of training steps")
      .excludes(input_only);
  command.add_flag("--synthetic", arguments->synthetic,
                   "Random images of the model's input and classes as data");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_profile(CommandLine& line) {
  const auto arguments = std::make_shared<commands::ProfileArguments>();
  const Command command =
      line.add_command("profile", "Where the time of a step goes, by layer, and of the input");
  add_config(command, *arguments);
  command.add_option("--steps", arguments->steps, "Steps to record, after a warm-up")
      .at_least_one();
  command.add_option("--trace", arguments->trace, "File for Perfetto or chrome://tracing");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a trace that exists");
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

void add_find(CommandLine& line) {
  const auto arguments = std::make_shared<commands::FindArguments>();
  const Command command = line.add_command(
      "find", "A learning rate by a range test, or a batch size by measuring throughput");
  command.add_option("what", arguments->what, "learning-rate or batch-size")
      .required()
      .choices({"learning-rate", "batch-size"});
  add_config(command, *arguments);
  command.add_option("--plot", arguments->plot, "Write what was measured to this SVG file");
  command.add_flag("--overwrite", arguments->overwrite, "Replace a plot that exists");
  command.add_option("--low", arguments->rates.low, "learning-rate: the first rate").positive();
  command.add_option("--high", arguments->rates.high, "learning-rate: the last rate").positive();
  command.add_option("--steps", arguments->rates.steps, "learning-rate: how many rates")
      .in_range(10, 1000000);
  command.add_option("--first", arguments->sizes.first, "batch-size: the smallest").at_least_one();
  command.add_option("--most", arguments->sizes.most, "batch-size: the largest").at_least_one();
  command.add_option("--seconds", arguments->sizes.seconds, "batch-size: time to measure each")
      .positive();
  command.run([arguments] { return commands::execute(*arguments, make_context()); });
}

}  // namespace trainer::app
