#include <iostream>

#include "base/error.h"
#include "base/files.h"
#include "commands.h"
#include "train/open.h"
#include "train/plan_report.h"
#include "train/rate_plot.h"
#include "train/resolved.h"
#include "train/simulate.h"
#include "train/warnings.h"
#include "train/workers.h"

namespace trainer::app {

int plan(const PlanArguments& arguments) {
  train::check_pass(arguments.print_after);
  const config::LoadedConfig loaded =
      config::load_config(arguments.path, arguments.overrides, environment());
  const config::Config& config = loaded.config;
  const cluster::Identity who = arguments.world_size ? train::planned_workers(*arguments.world_size)
                                                     : cluster::identify({}, environment());
  train::check_workers(config, who);
  warn(train::core_warning(config.parallel));
  const train::PlannedData data = train::plan_data(config);
  const std::optional<graph::Graph> model = train::plan_model(config, data);
  train::PlanReport report = train::make_plan(loaded, data, model, who);
  for (const std::string& line : train::config_warnings(config, data.sample, report.steps)) {
    warn(line);
  }
  if (!arguments.plot.empty()) {
    if (!report.steps) throw DataError("--plot", "needs the number of samples: " + data.unknown);
    write_file_atomic(arguments.plot, train::rate_plot(config, *report.steps));
  }
  std::optional<train::Simulation> simulation;
  if (arguments.simulation.workers > 0) {
    simulation = train::simulate(arguments.simulation, config, model);
  }
  const train::DevicePlan device = train::plan_device(model, data, config, who);
  train::fill_in(report.settings, train::resolve_on_machine(config, device));
  if (arguments.json) {
    train::print_plan_json(report, device, std::cout);
  } else {
    train::print_plan(report, std::cout);
    train::print_device(report, device, std::cout);
  }
  if (simulation) {
    (arguments.json ? train::print_simulation_json : train::print_simulation)(*simulation,
                                                                              std::cout);
  }
  // Standard output holds nothing but JSON when that was asked for.
  std::ostream& text = arguments.json ? std::cerr : std::cout;
  if (model && !arguments.print_after.empty()) {
    train::print_graphs(*model, config, *train::open_backends(config).front(),
                        arguments.print_after, text);
  }
  if (device.engine && arguments.program) train::print_programs(*device.engine, text);
  return kExitOk;
}

}  // namespace trainer::app
