// What layers add to a graph. Internal to model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/sections/layers.h"
#include "graph/graph.h"
#include "model/initialise.h"

namespace trainer::model {

// The graph to which a layer is added, and the values of the layer.
struct LayerSite {
  graph::Graph& graph;
  graph::LayerInfo& info;              // its parameters are appended
  std::vector<graph::ValueId> inputs;  // one or more
  std::uint64_t seed;
  std::uint32_t& dropouts;  // number of dropout layers so far
  std::string part = {};    // begins the names of the parameters of a layer within this one
};

template <class... Parts>
[[noreturn]] void fail(const LayerSite& site, const Parts&... parts) {
  throw ConfigError(site.info.loc, concat(site.info.name, ": ", parts...));
}
void expect_positive(const LayerSite& site, const char* what, std::int64_t number);

graph::ValueId only_input(const LayerSite& site);
std::int64_t count_channels(const LayerSite& site, graph::ValueId id);

graph::ValueId emit(const LayerSite& site, graph::Op op, std::vector<graph::ValueId> inputs);

// Returns a value that is named after the layer, which the caller adds to the graph.
graph::Value persistent_value(const LayerSite& site, const char* suffix, Shape shape,
                              graph::Role role);
graph::ValueId parameter(LayerSite& site, const char* suffix, Shape shape, const Fans& fans,
                         const config::Initializer& initializer,
                         const config::Regularizer& penalty = {});
// Adds a vector, of which Keras takes the length for both fans.
graph::ValueId vector_parameter(LayerSite& site, const char* suffix, std::int64_t length,
                                const config::Initializer& initializer);

}  // namespace trainer::model
