#include "model/import.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/glob.h"
#include "checkpoint/weights.h"

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

// Keras has a depthwise kernel as [kh, kw, in, multiplier], we as [kh, kw, 1, in * multiplier]: the
// same bytes.
bool fits(const Shape& file, const Shape& model) {
  if (file == model) return true;
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
      // Keras 3 numbers a layer's weights in the order that ours have.
      if (found == by_name_.end()) found = by_name_.find(concat(layer.name, '/', i));
      // The name of a depthwise kernel since Keras 3.
      if (found == by_name_.end() && value.name == layer.name + "/depthwise_kernel") {
        found = by_name_.find(layer.name + "/kernel");
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

  void pass_over(const graph::LayerInfo& layer) {
    report().others += static_cast<std::int64_t>(layer.parameters.size());
  }

  Import finish() && {
    for (std::size_t i = 0; i < file_.size(); ++i) {
      if (!used_[i]) report().extra.push_back(file_[i].name);
    }
    return std::move(import_);
  }

 private:
  ImportReport& report() { return import_.report; }

  bool may_be_missing(const std::string& name) const {
    return std::any_of(allowed_.begin(), allowed_.end(), [&](const std::string& pattern) {
      return matches(pattern, name) || matches(pattern + "/*", name);
    });
  }

  void take(Tensor& tensor, const graph::Value& value) {
    if (!fits(tensor.shape, value.shape)) {
      if (may_be_missing(value.name)) {
        report().initialised.push_back(value.name);
      } else {
        report().ill_shaped.push_back({value.name, tensor.shape, value.shape});
      }
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

constexpr std::size_t kMostNames = 8;  // of tensors listed of a kind

void list(std::string& text, const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += concat("\n  ", what, ':');
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) text += "\n    " + names[i];
  if (names.size() > kMostNames) text += concat("\n    and ", names.size() - kMostNames, " more");
}

// The name of the file that Keras would fetch, for messages.
std::string keras_file(const config::Backbone& backbone) {
  using Name = config::Backbone::Name;
  const bool top = backbone.include_top;
  switch (backbone.name) {
    case Name::kVgg16:
      return concat("vgg16_weights_tf_dim_ordering_tf_kernels", top ? "" : "_notop", ".h5");
    case Name::kResNet50:
      return concat("resnet50_weights_tf_dim_ordering_tf_kernels", top ? "" : "_notop", ".h5");
    case Name::kMobileNetV2:
      return concat("mobilenet_v2_weights_tf_dim_ordering_tf_kernels_",
                    backbone.alpha == 1 ? "1.0" : concat(backbone.alpha), "_224",
                    top ? "" : "_no_top", ".h5");
  }
  return "";
}

const char* keras_class(config::Backbone::Name name) {
  switch (name) {
    case config::Backbone::Name::kVgg16:
      return "VGG16";
    case config::Backbone::Name::kResNet50:
      return "ResNet50";
    case config::Backbone::Name::kMobileNetV2:
      return "MobileNetV2";
  }
  return "";
}

// What is probably wrong when most tensors do not fit.
std::string guess(const ImportReport& report, const config::Model& model) {
  if (!model.backbone || report.ill_shaped.size() + report.missing.size() <= report.loaded.size()) {
    return "";
  }
  const bool mobile = model.backbone->name == config::Backbone::Name::kMobileNetV2;
  const std::string alpha = mobile ? concat(" with alpha: ", model.backbone->alpha,
                                            " (the 1.0 in ..._1.0_224... of a "
                                            "Keras file's name)")
                                   : "";
  return concat("\nMost tensors do not fit: the file is probably of another network than ",
                keras_class(model.backbone->name), alpha, ".");
}

void expect_file(const std::string& path, const config::Model& model) {
  if (std::filesystem::exists(path)) return;
  if (!model.backbone) throw DataError(path, "there is no such file; it is named by model.weights");
  const config::Backbone& backbone = *model.backbone;
  const std::string top = backbone.include_top ? "" : "include_top=False";
  const std::string alpha =
      backbone.alpha == 1 ? "" : concat(top.empty() ? "" : ", ", "alpha=", backbone.alpha);
  throw DataError(
      path,
      concat("there is no such file; it is named by model.backbone.weights.\nKeras's file is ",
             keras_file(backbone), ": calling keras.applications.", keras_class(backbone.name), '(',
             top, alpha,
             ") once fetches it into ~/.keras/models. Copy it here or give its "
             "place with --set model.backbone.weights=FILE; remove the key to start from "
             "random numbers."));
}

}  // namespace

std::string ImportReport::text() const {
  std::string text =
      concat(path, ": ", loaded.size(), " tensors loaded, ", missing.size(), " missing, ",
             ill_shaped.size(), " of another shape, ", initialised.size(),
             " initialised as allow_missing says, ", extra.size(), " without a place in the model");
  list(text, "missing", missing);
  std::vector<std::string> shapes;
  for (const Shapes& wrong : ill_shaped) {
    shapes.push_back(concat(wrong.name, ": ", to_string(wrong.file), " in the file, ",
                            to_string(wrong.model), " in the model"));
  }
  list(text, "of another shape", shapes);
  list(text, "initialised", initialised);
  list(text, "without a place", extra);
  return text;
}

std::string ImportReport::line() const {
  return concat(path, ": ", loaded.size(), " tensors loaded; ",
                static_cast<std::int64_t>(initialised.size()) + others,
                " of the model left as initialised, ", extra.size(), " of the file unused");
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

void check_weights_exist(const config::Model& model) {
  const std::string& path = model.backbone ? model.backbone->weights : model.weights;
  if (!path.empty()) expect_file(path, model);
}

Import import_weights(const graph::Graph& graph, const config::Model& model) {
  const std::string& path = model.backbone ? model.backbone->weights : model.weights;
  if (path.empty()) return {};
  expect_file(path, model);
  std::vector<Tensor> file = checkpoint::read_weights(path);
  if (model.backbone) file = from_torchvision(model.backbone->name, std::move(file));
  Import import = match_weights(
      graph, std::move(file), model.backbone ? model.backbone->allow_missing : model.allow_missing);
  import.report.path = path;
  if (!import.report.complete()) {
    throw DataError(path, "does not fit the model.\n" + import.report.text() +
                              guess(import.report, model) +
                              "\nGive the file of this network, or name what may be missing under "
                              "allow_missing, e.g. [\"predictions\"].");
  }
  return import;
}

}  // namespace trainer::model
