#include "commands/models/models.h"

#include <optional>
#include <ostream>

#include "base/error.h"
#include "base/formats/table.h"
#include "config/pretrained.h"
#include "config/values.h"
#include "model/build_model.h"
#include "model/table.h"
#include "results/write_json.h"

namespace trainer::commands {

void fields(results::FieldVisitor& v, BackboneRow& row) {
  v("name", row.name, "The name in model.backbone.");
  v("variant", row.variant, "The variant of the backbone.");
  v("input", row.input, "Shape of the image that the numbers are for.");
  v("parameters", row.parameters, "Parameters without the classifier.");
  v("flops", row.flops, {"FLOP", 0}, "Operations of a forward pass.");
  v("features", row.features, "Channels at its end.");
  v("preprocess", row.preprocess, "The preset of data.preprocess.");
  v("weights", row.weights, "The file of weights: imagenet; empty for none.");
  v("source", row.source, "The network in Python whose weight files it takes.");
}

void fields(results::FieldVisitor& v, BackboneList& list) {
  v.event("models");
  v("backbones", list.backbones, "The backbones.");
  v.when_present("sources", list.sources, "The published weights of the backbone that is named.");
}

namespace {

using Name = config::Backbone::Name;

constexpr std::int64_t kSide = 224;  // what Keras's and torchvision's tables are of

BackboneRow make_row(const config::Backbone& backbone) {
  config::Model model;
  model.backbone = backbone;
  config::Layer pool;
  pool.kind = config::GlobalAveragePoolLayer{};
  pool.name = "pool";
  model.head.push_back(pool);
  model.loss = LossKind::kMeanSquaredError;
  model::SampleSpec sample;
  sample.image = {kSide, kSide, 3};
  sample.classes = 0;  // whatever the backbone gives
  const graph::Graph graph = model::build_model(model, {}, sample, 0);
  BackboneRow row;
  row.name = spell(backbone.name);
  row.variant = spell(config::find_variant(backbone));
  row.input = {kSide, kSide, 3};
  for (const model::LayerRow& layer : model::layer_table(graph)) {
    row.parameters += layer.parameters;
    row.flops += layer.flops;
  }
  const Shape& end = graph[graph.layers.back().output].shape;
  row.features = end[end.rank() - 1];
  row.preprocess = spell(config::default_preprocess(backbone));
  row.weights = config::imagenet_weight_file(backbone);
  row.source = config::python_name(backbone);
  return row;
}

std::string in_units(double number, double unit, const char* name) {
  return fixed(number / unit, number < 10 * unit ? 2 : 1) + name;
}

// Returns the rows of a backbone, or of all.
std::vector<BackboneRow> backbone_rows(std::optional<Name> name) {
  std::vector<BackboneRow> rows;
  for (const config::Backbone& backbone : config::list_backbones()) {
    if (!name || backbone.name == *name) rows.push_back(make_row(backbone));
  }
  return rows;
}

void print_backbones(const std::vector<BackboneRow>& rows, std::ostream& out) {
  Table table(
      {"backbone", "variant", "parameters", "GFLOP", "features", "preprocess", "weights: imagenet"},
      {2, 3, 4});
  for (const BackboneRow& row : rows) {
    table.add({row.name, row.variant, in_units(static_cast<double>(row.parameters), 1e6, " M"),
               in_units(static_cast<double>(row.flops), 1e9, ""), std::to_string(row.features),
               row.preprocess, row.weights.empty() ? "-" : row.weights});
  }
  table.print(out);
  out << "\nWithout the classifier, of one image of " << kSide << " x " << kSide
      << " x 3, forward; a multiplication and an addition are two FLOP.\n"
         "Use one with model.backbone: {name: ..., weights: imagenet}; "
         "`trainer explain model.backbone` lists its keys.\n";
}

}  // namespace

int execute(const ModelsArguments& arguments, const Context& context) {
  std::optional<Name> name;
  if (!arguments.name.empty()) {
    name = parse_enum<Name>(arguments.name);
    if (!name) {
      throw ConfigError({}, config::unknown("backbone", arguments.name,
                                            "`trainer models` lists them", enum_words<Name>()));
    }
  }
  BackboneList list{backbone_rows(name)};
  if (name) list.sources = list_sources(*name, context.environment);
  if (arguments.json) {
    results::print_json(list, context.out);
    return kExitOk;
  }
  print_backbones(list.backbones, context.out);
  if (name) context.out << '\n';
  if (!list.sources.empty()) print_sources(list.sources, context.out);
  return kExitOk;
}

}  // namespace trainer::commands
