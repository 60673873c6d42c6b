#include "commands/verify/verify.h"

#include <iostream>

#include "options/commands.h"
#include "model/build_model.h"
#include "options/options.h"
#include "train/open.h"
#include "train/resolve_batch_size.h"

namespace trainer::app {
namespace {

struct VerifyArguments : ConfigArguments {
  std::string what;  // replicas or resume
  std::vector<std::int64_t> replicas{1, 2, 4};
  std::int64_t steps = 200;
};

int verify(const VerifyArguments& arguments) {
  config::Config config = load(arguments).config;
  const data::Datasets data = train::open_training_data(config);
  warn(train::resolve_normalize(config, data));
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  warn(train::resolve_batch_size(config, model, data.train->size()));
  const commands::VerifyOptions options{arguments.replicas, arguments.steps};
  const commands::Verification verification =
      arguments.what == "replicas" ? commands::verify_replicas(config, data, model, options)
                                   : commands::verify_resume(config, data, model, options);
  if (arguments.json) {
    commands::print_verification_json(verification, std::cout);
  } else {
    commands::print_verification(verification, std::cout);
  }
  return verification.holds() ? kExitOk : kExitCheck;
}

}  // namespace

void add_verify(CommandLine& line) {
  const auto arguments = std::make_shared<VerifyArguments>();
  const Command command = line.add_command(
      "verify", "Prove by training that replicas, or a resumed run, give what they should");
  command.add_option("what", arguments->what, "replicas or resume")
      .required()
      .choices({"replicas", "resume"});
  add_config(command, *arguments);
  // Here a list to compare, not one number for the config.
  command.remove_option("--replicas");
  command
      .add_option("--replicas", arguments->replicas,
                  "Numbers of replicas to compare; default 1,2,4")
      .delimiter(',')
      .at_least_one();
  command.add_option("--steps", arguments->steps, "Length of the runs").in_range(2, 1000000000);
  command.run([arguments] { return verify(*arguments); });
}

}  // namespace trainer::app
