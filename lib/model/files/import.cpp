#include "model/files/import.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/files/glob.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "checkpoint/average.h"
#include "checkpoint/keras.h"
#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "config/pretrained.h"
#include "config/source_names.h"
#include "config/weight_names.h"
#include "model/backbones/backbone.h"
#include "model/files/keras_normalization.h"
#include "model/files/keras_order.h"
#include "model/files/position_embedding.h"
#include "model/files/pytorch.h"
#include "model/files/source_network.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;

// "model/block1_conv1/kernel" -> "block1_conv1/kernel"
std::string last_two(const std::string& name) {
  const std::size_t last = name.rfind('/');
  if (last == std::string::npos || last == 0) return name;
  const std::size_t before = name.rfind('/', last - 1);
  return before == std::string::npos ? name : name.substr(before + 1);
}

// Keras stores a depthwise kernel as [kh, kw, in, multiplier] where we have [kh, kw, 1, in *
// multiplier], some 1x1 convolutions as dense layers, and shared slopes as [1, 1, channels]. The
// bytes are the same.
bool fits(const Shape& file, const Shape& model) {
  if (file == model) return true;
  if (file.rank() == 3 && file[0] == 1 && file[1] == 1) return model == Shape{file[2]};
  if (file.rank() == 2) return model == Shape{1, 1, file[0], file[1]};
  return file.rank() == 4 && model.rank() == 4 && file[0] == model[0] && file[1] == model[1] &&
         model[2] == 1 && file[2] * file[3] == model[3];
}

class Matcher {
 public:
  Matcher(std::vector<Tensor> file, const std::vector<std::string>& allowed)
      : file_(std::move(file)), allowed_(allowed), used_(file_.size(), false) {
    for (std::size_t i = 0; i < file_.size(); ++i) by_name_.emplace(last_two(file_[i].name), i);
  }

  void add(const graph::Graph& graph, const graph::LayerInfo& layer) {
    for (std::size_t i = 0; i < layer.parameters.size(); ++i) {
      const graph::Value& value = graph[layer.parameters[i]];
      auto found = by_name_.find(value.name);
      // Keras 3 numbers the weights of a layer, in the same order as ours.
      if (found == by_name_.end()) found = by_name_.find(concat(layer.name, '/', i));
      // Since Keras 3, a depthwise kernel is named "kernel".
      if (found == by_name_.end() && value.name == layer.name + "/depthwise_kernel") {
        found = by_name_.find(layer.name + "/kernel");
      }
      // Keras names the factors of ConvNeXt's LayerScale "variable" or "Variable_3".
      for (const char* unnamed : {"/variable", "/Variable"}) {
        if (found != by_name_.end() || value.name != layer.name + "/gamma") break;
        found = by_name_.lower_bound(layer.name + unnamed);
        if (found != by_name_.end() && !found->first.starts_with(layer.name + unnamed)) {
          found = by_name_.end();
        }
      }
      if (found == by_name_.end()) {
        (may_be_missing(value.name) ? report().initialised : report().missing)
            .push_back(value.name);
        continue;
      }
      used_[found->second] = true;
      take(file_[found->second], value);
    }
  }

  void pass_over(const graph::LayerInfo& layer) { report().others += std::ssize(layer.parameters); }

  Import finish() && {
    for (std::size_t i = 0; i < file_.size(); ++i) {
      if (!used_[i]) report().extra.push_back(file_[i].name);
    }
    return std::move(import_);
  }

 private:
  ImportReport& report() { return import_.report; }

  bool may_be_missing(const std::string& name) const {
    return std::ranges::any_of(allowed_, [&](const std::string& pattern) {
      return matches(pattern, name) || matches(pattern + "/*", name);
    });
  }

  void take(Tensor& tensor, const graph::Value& value) {
    const bool fits_shape = fits(tensor.shape, value.shape);
    if ((!fits_shape || tensor.is_integer) && may_be_missing(value.name)) {
      report().initialised.push_back(value.name);
      return;
    }
    if (!fits_shape) {
      report().ill_shaped.push_back({value.name, tensor.shape, value.shape});
      return;
    }
    if (tensor.is_integer) {
      report().integers.push_back(value.name);
      return;
    }
    report().loaded.push_back(value.name);
    import_.tensors.push_back({value.name, value.shape, std::move(tensor.values)});
  }

  std::vector<Tensor> file_;
  const std::vector<std::string>& allowed_;
  std::vector<bool> used_;
  std::map<std::string, std::size_t> by_name_;
  Import import_;
};

// A layer of a weight file: its name and the indices of its tensors.
struct FileLayer {
  std::string name;
  std::vector<std::size_t> tensors;
};

std::string file_layer(const std::string& tensor) {
  const std::string name = last_two(tensor);
  return name.substr(0, name.find('/'));
}

// Returns for each class ("conv2d") the layers of the file that have automatic names, in the order
// of the file.
std::map<std::string, std::vector<FileLayer>> automatic_layers(const std::vector<Tensor>& file) {
  std::map<std::string, std::vector<FileLayer>> layers;
  std::map<std::string, std::size_t> places;  // by layer: its index among those of its class
  for (std::size_t i = 0; i < file.size(); ++i) {
    const std::string name = file_layer(file[i].name);
    std::vector<FileLayer>& alike = layers[std::string(checkpoint::without_keras_number(name))];
    const auto [place, fresh] = places.emplace(name, alike.size());
    if (fresh) alike.push_back({name, {}});
    alike[place->second].tensors.push_back(i);
  }
  return layers;
}

bool fits(const FileLayer& layer, const std::vector<Tensor>& file, const graph::Graph& graph,
          const graph::LayerInfo& info) {
  if (layer.tensors.size() != info.parameters.size()) return false;
  for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
    if (!fits(file[layer.tensors[i]].shape, graph[info.parameters[i]].shape)) return false;
  }
  return true;
}

// Renames layers of a Keras file that have automatic names to the layers of the model with the same
// index among the layers of their class. Returns the pairs of names. If numbers or shapes of layers
// differ, returns none and leaves the file unchanged.
std::vector<std::pair<std::string, std::string>> rename_by_position(std::vector<Tensor>& file,
                                                                    const graph::Graph& graph) {
  const auto of_file = automatic_layers(file);
  std::map<std::string, std::vector<const graph::LayerInfo*>> of_model;
  for (const graph::LayerInfo* info : keras_order(graph)) {
    const std::string base = checkpoint::snake_case(info->kind);
    const bool is_automatic = checkpoint::without_keras_number(info->name) == base;
    if (is_automatic && !info->weights.empty() && !info->parameters.empty()) {
      of_model[base].push_back(info);
    }
  }
  std::vector<std::pair<std::string, std::string>> renamed;
  std::vector<std::pair<std::size_t, std::string>> names;  // by index of a tensor
  for (const auto& [base, layers] : of_model) {
    const auto found = of_file.find(base);
    if (found == of_file.end() || found->second.size() != layers.size()) return {};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const FileLayer& layer = found->second[i];
      if (!fits(layer, file, graph, *layers[i])) return {};
      if (layer.name != layers[i]->name) renamed.emplace_back(layer.name, layers[i]->name);
      for (std::size_t k = 0; k < layer.tensors.size(); ++k) {
        names.emplace_back(layer.tensors[k], graph[layers[i]->parameters[k]].name);
      }
    }
  }
  for (auto& [tensor, name] : names) file[tensor].name = std::move(name);
  return renamed;
}

// Returns whether layers of the model find no weights by the names in the file.
bool lacks_names(const std::vector<Tensor>& file, const graph::Graph& graph,
                 const std::vector<std::string>& allow_missing) {
  std::vector<Tensor> shapes;
  for (const Tensor& tensor : file) {
    shapes.push_back({tensor.name, tensor.shape, {}, tensor.is_integer});
  }
  const ImportReport report = match_weights(graph, std::move(shapes), allow_missing).report;
  return !report.complete() || (!report.initialised.empty() && !report.extra.empty());
}

// Returns whether the file is Keras's .h5 or .keras, whose layers have an order.
bool is_keras_file(const Path& path) {
  const Bytes start = read_file_start(path, 4);
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), start.size());
  return magic == "\x89HDF" || (magic.starts_with("PK") && path.extension() == ".keras");
}

constexpr std::size_t kMaxListedTensors = 8;  // of each kind

void list(std::string& text, const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += concat("\n  ", what, ':');
  for (std::size_t i = 0; i < std::min(names.size(), kMaxListedTensors); ++i)
    text += "\n    " + names[i];
  if (names.size() > kMaxListedTensors)
    text += concat("\n    and ", names.size() - kMaxListedTensors, " more");
}

std::string tensors(std::size_t count) {
  return concat(count, count == 1 ? " tensor" : " tensors");
}

// Returns the probable cause if most tensors do not fit.
std::string guess(const ImportReport& report, const config::Model& model) {
  if (!model.backbone || report.ill_shaped.size() + report.missing.size() <= report.loaded.size()) {
    return "";
  }
  using BackboneName = config::Backbone::Name;
  const BackboneName name = model.backbone->name;
  const bool mobile = name == BackboneName::kMobileNetV2 ||
                      name == BackboneName::kMobileNetV3Small ||
                      name == BackboneName::kMobileNetV3Large;
  const std::string alpha = mobile ? concat(" with alpha: ", model.backbone->alpha,
                                            " (the 1.0 in ..._1.0_224... of a "
                                            "Keras file's name)")
                                   : "";
  return concat("\nMost tensors do not fit: the file is probably of another network than ",
                config::python_class(*model.backbone), alpha, ".");
}

// Returns the part of a message on what to do if the file does not have all tensors of the model.
std::string incomplete_advice(const ImportReport& report, bool of_backbone) {
  constexpr std::size_t kMaxLayers = 8;  // a file that lacks more layers is of another network
  const std::string key = of_backbone ? "model.backbone.allow_missing" : "model.allow_missing";
  std::vector<std::string> layers;
  const auto add = [&](const std::string& tensor) {
    const std::string layer = tensor.substr(0, tensor.rfind('/'));
    if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  };
  // --set replaces the list of the config, so that the new list repeats its layers.
  for (const std::string& tensor : report.initialised) add(tensor);
  for (const std::string& tensor : report.missing) add(tensor);
  for (const ImportReport::Shapes& tensor : report.ill_shaped) add(tensor.name);
  for (const std::string& tensor : report.integers) add(tensor);
  if (layers.size() > kMaxLayers) {
    return concat(
        "Give the file of this network, or name the layers that may stay as initialised "
        "in ",
        key, '.');
  }
  return concat("Give the file of this network, or let these layers stay as initialised: --set ",
                shell_word(concat(key, "=[", join(layers), ']')));
}

// Returns the parameters of a checkpoint: without optimizer slots ("dense/kernel/m" of
// "dense/kernel"), and with averages in place of their parameters, as in an evaluation of the run.
std::vector<Tensor> without_slots(std::vector<Tensor> file) {
  constexpr std::string_view kAverage = "/average";
  std::map<std::string, Tensor*> by_name;
  std::set<std::string> names;
  for (Tensor& tensor : file) {
    by_name[tensor.name] = &tensor;
    names.insert(tensor.name);
  }
  for (Tensor& tensor : file) {
    if (!tensor.name.ends_with(kAverage) || !checkpoint::is_slot(tensor.name, names)) continue;
    const std::string parameter = tensor.name.substr(0, tensor.name.size() - kAverage.size());
    std::swap(by_name.at(parameter)->values, tensor.values);
  }
  std::erase_if(file,
                [&](const Tensor& tensor) { return checkpoint::is_slot(tensor.name, names); });
  return file;
}

// Returns whether all parameters of the layer that gives the outputs are loaded from the file.
bool loads_head(const graph::Graph& graph, const ImportReport& report) {
  const auto head =
      std::find_if(graph.layers.rbegin(), graph.layers.rend(),
                   [](const graph::LayerInfo& layer) { return !layer.parameters.empty(); });
  if (head == graph.layers.rend()) return false;
  return std::ranges::all_of(head->parameters, [&](graph::ValueId id) {
    const std::vector<std::string>& loaded = report.loaded;
    return std::ranges::find(loaded, graph[id].name) != loaded.end();
  });
}

// Returns whether the weight file is that of the backbone alone.
bool is_backbone_file(const config::Model& model) {
  return model.backbone && model.weights.empty();
}

const std::string& weight_path(const config::Model& model) {
  return is_backbone_file(model) ? model.backbone->weights : model.weights;
}

// Returns the error for a weight file that does not exist, without its name; "" if it exists or the
// config names none.
std::string describe_missing_file(const config::Model& model,
                                  const config::Environment& environment) {
  const bool of_backbone = is_backbone_file(model);
  if (of_backbone && model.backbone->weights == config::kImagenet) {
    return concat("model.backbone.weights: ",
                  config::missing_imagenet_weights(*model.backbone, environment));
  }
  const std::string& path = weight_path(model);
  if (path.empty() || std::filesystem::exists(path)) return "";
  if (const std::optional<config::WeightName> name = config::parse_weight_name(path)) {
    if (of_backbone || config::is_published(*name)) {
      return config::missing_named_weights(*name, environment);
    }
  }
  if (!of_backbone) return "there is no such file or run folder; it is named by model.weights";
  const config::Backbone& backbone = *model.backbone;
  return concat("there is no such file; it is named by model.backbone.weights.\n",
                config::weights_advice(backbone, environment),
                "\nOr give its place with --set model.backbone.weights=FILE; remove the key to "
                "start from random numbers.");
}

}  // namespace

std::string ImportReport::text() const {
  std::string text =
      concat(path, ": ", loaded.size(), " tensors loaded, ", missing.size(), " missing, ",
             ill_shaped.size(), " of another shape, ", initialised.size(),
             " initialised by allow_missing, ", extra.size(), " without a place in the model");
  list(text, "missing", missing);
  std::vector<std::string> shapes;
  for (const Shapes& wrong : ill_shaped) {
    shapes.push_back(concat(wrong.name, ": ", to_string(wrong.file), " in the file, ",
                            to_string(wrong.model), " in the model"));
  }
  list(text, "of another shape", shapes);
  list(text, "of integers in the file, where weights are floating-point numbers", integers);
  list(text, "initialised", initialised);
  list(text, "without a place", extra);
  return text;
}

std::string ImportReport::line() const {
  return concat(path, ": ", loaded.size(), " tensors loaded; ", std::ssize(initialised) + others,
                " of the model left as initialised, ", extra.size(), " of the file unused");
}

std::vector<Notice> ImportReport::notices() const {
  std::vector<Notice> notices;
  for (const std::string& note : notes) notices.push_back(Notice::note(concat(path, ": ", note)));
  if (!by_position.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [file, model] : by_position) pairs.push_back(concat(file, " is ", model));
    notices.push_back(Notice::note(
        concat(path,
               ": its layers are numbered like those of a later model of a Keras session; "
               "they are matched by position, as Keras does: ",
               join_first(pairs, kMaxListedTensors))));
  }
  if (!initialised.empty()) {
    const std::string text = concat(path, ": ", tensors(initialised.size()),
                                    " of the model left as initialised, as allow_missing permits: ",
                                    join_first(initialised, kMaxListedTensors));
    notices.push_back(loaded.empty() ? Notice(text + "; none was loaded") : Notice::note(text));
  }
  if (!extra.empty()) {
    notices.emplace_back(concat(path, ": ", tensors(extra.size()),
                                " of the file unused, for which the model has no place: ",
                                join_first(extra, kMaxListedTensors)));
  }
  return notices;
}

Import match_weights(const graph::Graph& graph, std::vector<Tensor> file,
                     const std::vector<std::string>& allow_missing) {
  Matcher matcher(std::move(file), allow_missing);
  for (const graph::LayerInfo& layer : graph.layers) {
    if (!layer.weights.empty()) {
      matcher.add(graph, layer);
    } else {
      matcher.pass_over(layer);
    }
  }
  return std::move(matcher).finish();
}

std::string missing_weights(const config::Model& model, const config::Environment& environment) {
  const std::string message = describe_missing_file(model, environment);
  return message.empty() ? "" : concat(weight_path(model), ": ", message);
}

void check_weights_exist(const config::Model& model, const config::Environment& environment) {
  const std::string message = describe_missing_file(model, environment);
  if (!message.empty()) throw DataError(weight_path(model), Controls::kLines, message);
}

namespace {

// Returns the first names of a list of tensors: "conv1.weight, bn1.weight and 318 more".
std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kNames = 3;
  return join_first(names, kNames);
}

// Returns the sentence on the key that selects among the networks of the backbone's name, after
// `start`; "" if there is one network.
std::string describe_variant(const config::Model& model, const char* start) {
  if (!model.backbone) return "";
  std::vector<std::string> words;
  for (const config::Backbone::Variant variant : config::list_variants(model.backbone->name)) {
    words.emplace_back(spell(variant));
  }
  return words.size() < 2 ? ""
                          : concat(start, "model.backbone.variant is ",
                                   spell(config::find_variant(*model.backbone)),
                                   "; its values for this backbone are ", join(words));
}

// Returns the error for a file of which no tensor fits the model, with the names that do.
std::string describe_foreign_file(const graph::Graph& graph, const config::Model& model,
                                  const ImportReport& report) {
  std::vector<std::string> expected;
  for (const graph::LayerInfo& layer : graph.layers) {
    if (layer.weights.empty()) continue;
    for (const graph::ValueId id : layer.parameters) expected.push_back(graph[id].name);
  }
  const std::string layer = expected.front().substr(0, expected.front().rfind('/'));
  const bool is_keras =
      model.backbone && config::find_variant(*model.backbone) == config::Backbone::Variant::kKeras;
  return concat("has no tensor that the model takes: it holds ",
                report.extra.empty() ? "none" : first_names(report.extra),
                ". Expected are the names",
                model.backbone ? " of " + config::python_name(*model.backbone) : "", ": ",
                first_names(expected),
                is_keras ? "" : concat(", or in a state dict of PyTorch ", layer, ".weight"),
                ". Give a file of this network", describe_variant(model, ". "));
}

// Throws DataError if the file, which has `count` tensors, is not one of the model.
void check_import(const graph::Graph& graph, const config::Model& model, const ImportReport& report,
                  std::size_t count) {
  const bool expects_any = !report.complete() || !report.initialised.empty();
  if (expects_any && report.extra.size() == count) {
    throw DataError(report.path, describe_foreign_file(graph, model, report));
  }
  if (!report.complete()) {
    throw DataError(report.path, Controls::kLines, "does not fit the model.\n", report.text(),
                    guess(report, model), describe_variant(model, "\n"), '\n',
                    incomplete_advice(report, is_backbone_file(model)));
  }
  if (!model.backbone) return;
  const std::vector<std::string> foreign = find_foreign_layers(*model.backbone, report.extra);
  if (foreign.empty()) return;
  throw DataError(report.path,
                  concat("is of another network than ", config::python_name(*model.backbone),
                         ", which lacks its layers ", first_names(foreign),
                         "; give the file of this network", describe_variant(model, ". ")));
}

// Reads and matches the weight file of the config, which exists.
Import read_import(const graph::Graph& graph, const config::Model& model,
                   checkpoint::Content content) {
  const Path read = checkpoint::find_weight_file(weight_path(model));
  checkpoint::WeightFile weights = checkpoint::read_weights(read, {model.weights_entry, content});
  std::vector<Tensor> file = without_slots(std::move(weights.tensors));
  if (model.backbone && has_keras_normalization(*model.backbone)) remove_normalization(file, graph);
  if (model.backbone) config::use_published_names(*model.backbone, file);
  file = from_pytorch(graph, std::move(file));
  if (model.backbone) {
    for (std::string& note : fit_positions(graph, *model.backbone, file)) {
      weights.notes.push_back(std::move(note));
    }
  }
  const std::vector<std::string>& allow_missing =
      is_backbone_file(model) ? model.backbone->allow_missing : model.allow_missing;
  std::vector<std::pair<std::string, std::string>> by_position;
  if (is_keras_file(read) && lacks_names(file, graph, allow_missing)) {
    by_position = rename_by_position(file, graph);
  }
  const std::size_t count = file.size();
  Import import = match_weights(graph, std::move(file), allow_missing);
  import.report.path = read;
  import.report.by_position = std::move(by_position);
  import.report.classes = std::move(weights.classes);
  import.report.notes = std::move(weights.notes);
  import.report.has_head = loads_head(graph, import.report);
  check_import(graph, model, import.report, count);
  return import;
}

}  // namespace

Import import_weights(const graph::Graph& graph, const config::Model& model) {
  if (weight_path(model).empty()) return {};
  check_weights_exist(model, {});
  return read_import(graph, model, checkpoint::Content::kAll);
}

void check_weights(const std::optional<graph::Graph>& graph, const config::Model& model) {
  const std::string& path = weight_path(model);
  if (path.empty() || !missing_weights(model, {}).empty()) return;
  if (graph) {
    read_import(*graph, model, checkpoint::Content::kShapes);
  } else {
    checkpoint::read_weights(checkpoint::find_weight_file(path),
                             {model.weights_entry, checkpoint::Content::kShapes});
  }
}

}  // namespace trainer::model
