#include "train/evaluate.h"

#include <iostream>

#include "commands.h"
#include "model/model.h"
#include "train/data_report.h"
#include "train/follow.h"
#include "train/open.h"
#include "train/report.h"
#include "train/trained.h"

namespace trainer::app {

namespace {

int follow(const EvaluateArguments& arguments) {
  train::FollowOptions options{
      arguments.run, arguments.split, arguments.overrides, environment(), {}, warn};
  const config::Duration never{1e9, config::Duration::Unit::kSeconds};  // there are no steps to log
  if (arguments.json) {
    options.hooks.push_back(train::make_json_hook(std::cout, never));
  } else {
    options.hooks.push_back(train::make_progress_hook(std::cout, false, arguments.quiet, never));
  }
  const train::Followed followed = train::follow(std::move(options));
  train::print_followed(followed, arguments.run, arguments.json, std::cout);
  return followed.reason == "interrupted" ? kExitInterrupted : kExitOk;
}

}  // namespace

int evaluate(const EvaluateArguments& arguments) {
  if (arguments.follow) return follow(arguments);
  const train::Trained trained =
      train::open_trained(arguments.run, arguments.best, arguments.overrides, environment(), warn);
  const auto [split, data] = train::open_split_or_default(trained, arguments.split);
  warn(train::left_out(train::split_of(data, split), split));
  const graph::Graph model = model::build_model(trained.config.model, trained.config.data,
                                                train::sample_spec(data), trained.config.seed);
  train::Replicas engine(model, trained.config, train::open_backends(trained.config),
                         train::Engine::Use::kEvaluate);
  engine.load(trained.file, trained.path);
  const auto metrics = train::evaluate(engine, train::split_of(data, split),
                                       train::evaluate_options(trained.config));
  const train::EvaluationReport report{arguments.run, trained.step, split, data.classes, *metrics};
  if (arguments.json) {
    train::print_report_json(report, std::cout);
  } else {
    train::print_report(report, arguments.quiet, std::cout);
  }
  return kExitOk;
}

}  // namespace trainer::app
