#include "commands/plan/print_graphs.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "compile/compile.h"
#include "engine/compile_options.h"

namespace trainer::commands {

void check_pass(const std::string& pass) {
  std::vector<std::string> names = compile::pass_names();
  names.insert(names.begin(), "all");
  if (pass.empty() || std::ranges::find(names, pass) != names.end()) return;
  throw ConfigError({}, "--print-after ", pass, ": no pass has this name; expected one of ",
                    join(names));
}

void print_graphs(const graph::Graph& model, const config::Config& config,
                  const backend::Backend& backend, const std::string& pass, std::ostream& out) {
  compile::Options options = engine::compile_options(config, backend);
  options.print_after = pass;
  options.print_to = &out;
  const compile::FrozenSplit split = compile::split_frozen(model, options);
  const bool frozen = split.reason.empty();
  if (frozen) {
    out << "\ngraph of the frozen layers\n";
    compile::feature_graph(split, options);
  }
  out << "\ntraining graph\n";
  compile::training_graph(
      engine::training_model(frozen ? split.suffix : model, config::mixes_samples(config.data)),
      options);
  out << "\nevaluation graph\n";
  compile::evaluation_graph(frozen ? split.suffix : model, options);
}

void print_programs(engine::Engine& engine, std::ostream& out) {
  if (engine.replica().prefix() != nullptr) {
    out << "\nprogram of the frozen layers\n";
    engine.replica().prefix()->program().print(out);
  }
  out << "\ntraining program\n";
  engine.replica().print_training_program(out);
  out << "\nevaluation program\n";
  engine.replica().print_evaluation_program(out);
}

}  // namespace trainer::commands
