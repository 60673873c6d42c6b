#include "commands/verify/verify.h"

#include <iostream>

#include "commands.h"
#include "model/model.h"
#include "options.h"
#include "train/open.h"

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
  warn(train::settle_normalize(config, data));
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  warn(train::settle_batch_size(config, model, data.train->size()));
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

void add_verify(CLI::App& app, int& code) {
  const auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand(
      "verify", "Prove by training that replicas, or a resumed run, give what they should");
  command->add_option("what", arguments->what, "replicas or resume")
      ->required()
      ->check(CLI::IsMember({"replicas", "resume"}));
  add_config(*command, *arguments);
  // Here a list to compare, not one number for the config.
  command->remove_option(command->get_option("--replicas"));
  command
      ->add_option("--replicas", arguments->replicas,
                   "Numbers of replicas to compare; default 1,2,4")
      ->delimiter(',')
      ->check(at_least_one());
  command->add_option("--steps", arguments->steps, "Length of the runs")
      ->check(CLI::Range(2, 1000000000));
  command->callback([arguments, &code] { code = verify(*arguments); });
}

}  // namespace trainer::app
