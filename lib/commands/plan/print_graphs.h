// The graphs and programs of a model, as the compiler and the backend make them.
#pragma once

#include <ostream>
#include <string>

#include "backend/backend.h"
#include "config/config.h"
#include "engine/engine.h"
#include "graph/graph.h"

namespace trainer::commands {

// Throws ConfigError listing the passes unless `pass` is one, "all" or "".
void check_pass(const std::string& pass);
// The training and the evaluation graph after a pass, or after every one for "all".
void print_graphs(const graph::Graph& model, const config::Config& config,
                  const backend::Backend& backend, const std::string& pass, std::ostream& out);
// Prints the programs of the first replica.
void print_programs(engine::Engine& engine, std::ostream& out);

}  // namespace trainer::commands
