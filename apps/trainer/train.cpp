#include <unistd.h>

#include <iostream>

#include "checkpoint/checkpoint.h"
#include "commands.h"
#include "model/import.h"
#include "model/model.h"
#include "train/loop.h"
#include "train/open.h"

namespace trainer::app {

int train(const TrainArguments& arguments) {
  const config::Config config =
      config::load_config(arguments.path, arguments.overrides, environment()).config;
  const Path run = train::run_folder(config);
  const train::Start start = arguments.resume      ? train::Start::kResume
                             : arguments.overwrite ? train::Start::kOverwrite
                                                   : train::Start::kFresh;
  const data::Datasets data = train::open_training_data(config);
  const graph::Graph model =
      model::build_model(config.model, config.data, train::sample_spec(data), config.seed);
  train::Replicas engine(model, config, train::open_backends(config), train::Engine::Use::kTrain);

  if (start != train::Start::kResume) model::check_weights_exist(config.model);
  std::filesystem::create_directories(run);
  const checkpoint::RunLock lock(run);
  train::prepare_run_folder(run, config, start);
  train::write_data_report(run, data);
  train::Job job{config, data, engine, train::plan_steps(config, data.train->size())};
  job.run = run;
  job.start = start;
  job.hooks = train::make_hooks(config, std::cout,
                                {::isatty(STDOUT_FILENO) == 1, arguments.quiet, arguments.json});
  job.warn = warn;
  const train::Finish finish = train::train(job);
  train::write_data_report(run, data);  // what was replaced on the way
  return finish.reason == "interrupted" ? kExitInterrupted : kExitOk;
}

}  // namespace trainer::app
