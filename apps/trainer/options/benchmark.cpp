#include "commands/benchmark/benchmark.h"

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

}  // namespace trainer::app
