// Places a model's persistent values in the flat buffers of backend::Flat.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace trainer::backend {

struct Placement {
  // Elements [offset, offset + count) of a buffer.
  struct Location {
    FlatBuffer buffer;
    std::int64_t offset = 0, count = 0;
  };

  std::vector<graph::Value> values;  // all persistent values, in the order of the graph
  std::map<std::string, Location, std::less<>> locations;
  // Trained parameters in the order of the graph's update nodes, which is that of backward; moving
  // statistics that training changes lie one after another without a gap.
  Flat flat;
  std::int64_t rest = 0;  // elements of the values that training never changes

  // Throws std::logic_error when there is none.
  const Location& at(std::string_view name) const;
  // Returns the offset of a trained parameter in the flat buffers, or -1.
  std::int64_t gradient_offset(std::string_view parameter) const;
  // True if training steps change the value.
  bool changed_by_training(std::string_view name) const {
    return at(name).buffer.kind != FlatBuffer::Kind::kRest;
  }
};

Placement place_variables(const graph::Graph& graph);

// Returns the name of the parameter of a gradient, which is named "<parameter>/gradient".
std::string parameter_name(const std::string& gradient);

// True if a call of the graph can change variables: it has an update phase.
bool has_updates(const graph::Graph& graph);

}  // namespace trainer::backend
