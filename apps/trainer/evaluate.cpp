#include "train/evaluate.h"

#include <iostream>

#include "commands.h"
#include "model/model.h"
#include "train/open.h"
#include "train/report.h"
#include "train/trained.h"

namespace trainer::app {

int evaluate(const EvaluateArguments& arguments) {
  const train::Trained trained =
      train::open_trained(arguments.run, arguments.best, arguments.overrides, environment(), warn);
  const data::Datasets data = train::open_split(trained, arguments.split);
  const graph::Graph model = model::build_model(trained.config.model, trained.config.data,
                                                train::sample_spec(data), trained.config.seed);
  train::Replicas engine(model, trained.config, train::open_backends(trained.config),
                         train::Engine::Use::kEvaluate);
  engine.load(trained.file, trained.path);
  const auto metrics = train::evaluate(engine, train::split_of(data, arguments.split),
                                       train::evaluate_options(trained.config));
  const train::EvaluationReport report{arguments.run, trained.step, arguments.split, data.classes,
                                       *metrics};
  if (arguments.json) {
    train::print_report_json(report, std::cout);
  } else {
    train::print_report(report, arguments.quiet, std::cout);
  }
  return kExitOk;
}

}  // namespace trainer::app
