#include "train/verify.h"

#include <iostream>

#include "commands.h"
#include "model/model.h"
#include "train/open.h"

namespace trainer::app {

int verify(const VerifyArguments& arguments) {
  config::Config config =
      config::load_config(arguments.path, arguments.overrides, environment()).config;
  const data::Datasets data = train::open_training_data(config);
  warn(train::settle_normalize(config, data));
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  const train::VerifyOptions options{arguments.replicas, arguments.steps};
  const train::Verification verification =
      arguments.what == "replicas" ? train::verify_replicas(config, data, model, options)
                                   : train::verify_resume(config, data, model, options);
  if (arguments.json) {
    train::print_verification_json(verification, std::cout);
  } else {
    train::print_verification(verification, std::cout);
  }
  return verification.holds() ? kExitOk : kExitCheck;
}

}  // namespace trainer::app
