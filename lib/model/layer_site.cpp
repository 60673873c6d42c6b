#include "model/layer_site.h"

#include <utility>

namespace trainer::model {

using graph::Role;
using graph::Value;
using graph::ValueId;

void expect_positive(const LayerSite& site, const char* what, std::int64_t number) {
  if (number < 1) fail(site, what, " is ", number, ", expected 1 or more");
}

ValueId only_input(const LayerSite& site) {
  if (site.inputs.size() != 1) {
    fail(site, "takes one input, got ", site.inputs.size(),
         "; join them with an add or concatenate layer first");
  }
  return site.inputs[0];
}

ValueId emit(const LayerSite& site, graph::Op op, std::vector<ValueId> inputs) {
  return site.graph.add1(std::move(op), std::move(inputs), site.info.name, site.info.loc);
}

std::int64_t count_channels(const LayerSite& site, ValueId id) {
  const Shape& shape = site.graph[id].shape;
  return shape[shape.rank() - 1];
}

Value persistent_value(const LayerSite& site, const char* suffix, Shape shape, Role role) {
  return {concat(site.info.name, '/', site.part, suffix), std::move(shape), DType::kFloat32, role,
          site.info.loc};
}

ValueId parameter(LayerSite& site, const char* suffix, Shape shape, const Fans& fans,
                  const config::Initializer& initializer, const config::Regularizer& penalty) {
  Value value = persistent_value(site, suffix, std::move(shape), Role::kParameter);
  value.initial = resolve_initializer(initializer, fans);
  value.trainable = true;
  value.l1 = static_cast<float>(penalty.l1);
  value.l2 = static_cast<float>(penalty.l2);
  const ValueId id = site.graph.add_value(std::move(value));
  site.info.parameters.push_back(id);
  return id;
}

ValueId vector_parameter(LayerSite& site, const char* suffix, std::int64_t length,
                         const config::Initializer& initializer) {
  const auto fan = static_cast<double>(length);
  return parameter(site, suffix, {length}, {fan, fan}, initializer);
}

}  // namespace trainer::model
