// Keras's two HDF5 layouts.
//
// Applications, and models saved as .h5: the root, or model_weights, lists its layers in the
// attribute layer_names; the group of a layer lists its datasets in weight_names
// ("conv1/kernel:0"). Keras 3: groups layers/<class>_<number>/vars with datasets 0, 1, ... and the
// layer's name as the attribute "name"; models in models repeat this below.
#include "checkpoint/keras.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "checkpoint/hdf5/reader.h"
#include "checkpoint/hdf5/writer.h"

namespace trainer::checkpoint {
namespace {

constexpr char kClassNames[] = "class_names";  // an attribute of the file

using hdf5::Reader;

// Returns the present name of a weight. Files of Keras 1, such as that of VGG16, have
// block1_conv1_W_1:0 for block1_conv1/kernel:0.
std::string modern_name(const std::string& layer, std::string weight) {
  if (weight.ends_with(":0")) weight.resize(weight.size() - 2);
  if (weight.find('/') != std::string::npos) {
    const std::size_t last = weight.rfind('/');
    const std::size_t before = last == 0 ? std::string::npos : weight.rfind('/', last - 1);
    return before == std::string::npos ? weight : weight.substr(before + 1);
  }
  static constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"_W", "kernel"},
      {"_b", "bias"},
      {"_gamma", "gamma"},
      {"_beta", "beta"},
      {"_running_mean", "moving_mean"},
      {"_running_std", "moving_variance"},
  };
  for (const auto& [ending, name] : kNames) {
    if (without_keras_number(weight).ends_with(ending)) return layer + '/' + name;
  }
  return layer + '/' + weight;
}

std::vector<Tensor> read_applications(Reader& file, const std::string& root) {
  std::vector<Tensor> tensors;
  for (const std::string& layer : file.texts(root.empty() ? "/" : root, "layer_names")) {
    const std::string group = root + '/' + layer;
    for (const std::string& weight : file.texts(group, "weight_names")) {
      tensors.push_back(file.tensor(group + '/' + weight, modern_name(layer, weight)));
    }
  }
  return tensors;
}

// The largest depth of models in models. Deeper files are attacks.
constexpr int kDeepest = 32;

// Returns whether a group comes before another in Keras's list of layers. Layers of one class are
// ordered by number, which "conv2d" lacks for 0.
bool comes_before(const std::string& a, const std::string& b) {
  const auto split = [](std::string_view name) {
    const std::string_view base = without_keras_number(name);
    const std::string_view digits = name.substr(std::min(name.size(), base.size() + 1));
    // Longer numbers are larger ones: Keras writes no leading zeros.
    return std::tuple(base, digits.size(), digits);
  };
  return split(a) < split(b);
}

// Reads the weights of a group and of those below it. `seen` has the addresses of the groups that
// were read: a group with two links may contain itself.
void read_keras3(Reader& file, const std::string& group, int depth, std::set<std::uint64_t>& seen,
                 std::vector<Tensor>& tensors) {
  if (!seen.insert(file.address(group)).second) {
    file.fail("links the group '" + group + "' twice: the file is damaged");
  }
  if (depth > kDeepest) file.fail(concat("nests more than ", kDeepest, " groups"));
  std::vector<std::string> groups = file.children(group).groups;
  std::ranges::sort(groups, comes_before);
  for (const std::string& child : groups) {
    const std::string below = group == "/" ? '/' + child : group + '/' + child;
    // The state of random generators and optimizers is not a weight.
    if (child.starts_with("seed_generator") || below == "/optimizer") continue;
    if (child != "vars") {
      read_keras3(file, below, depth + 1, seen, tensors);
      continue;
    }
    const std::vector<std::string> names = file.texts(below, "name");
    const std::string layer = names.empty() ? group.substr(group.rfind('/') + 1) : names.front();
    for (const std::string& number : file.children(below).datasets) {
      tensors.push_back(file.tensor(below + '/' + number, layer + '/' + number));
    }
  }
}

void write_applications(hdf5::Writer& file, const std::vector<KerasLayer>& layers) {
  std::vector<std::string> names;
  for (const KerasLayer& layer : layers) {
    names.push_back(layer.name);
    const std::string group = '/' + layer.name;
    file.group(group);
    std::vector<std::string> weights;
    const auto add = [&](const std::string& prefix, const KerasLayer& each) {
      for (const auto& [weight, tensor] : each.weights) {
        weights.push_back(prefix + each.name + '/' + weight + ":0");
        file.dataset(group + '/' + weights.back(), tensor.shape, tensor.values);
      }
    };
    add("", layer);
    for (const KerasLayer& inner : layer.layers) add(layer.name + '/', inner);
    file.texts(group, "weight_names", weights);
  }
  file.texts("/", "layer_names", names);
  file.text("/", "backend", "tensorflow");
  file.text("/", "keras_version", "3.0.0");
}

void write_keras3(hdf5::Writer& file, const std::vector<KerasLayer>& layers,
                  const std::string& model) {
  std::map<std::string, int> used;
  for (const KerasLayer& layer : layers) {
    std::string key = snake_case(layer.kind);
    const int number = used[key]++;
    if (number > 0) key = concat(key, '_', number);
    const std::string place = model + "/layers/" + key, vars = place + "/vars";
    file.group(vars);
    file.text(vars, "name", layer.name);
    for (std::size_t i = 0; i < layer.weights.size(); ++i) {
      const Tensor& tensor = layer.weights[i].second;
      file.dataset(concat(vars, '/', i), tensor.shape, tensor.values);
    }
    if (!layer.layers.empty()) write_keras3(file, layer.layers, place);
  }
}

}  // namespace

std::vector<Tensor> read_keras_h5(const std::string& source, std::span<const std::uint8_t> bytes,
                                  std::vector<std::string>* classes, Content content) {
  Reader file(source, bytes, content);
  if (classes != nullptr && file.has_texts("/", kClassNames)) {
    *classes = file.texts("/", kClassNames);
    for (std::string& name : *classes) name = printable(name);
  }
  if (file.has_texts("/", "layer_names")) return read_applications(file, "");
  if (file.exists("model_weights") && file.has_texts("/model_weights", "layer_names")) {
    return read_applications(file, "/model_weights");
  }
  std::vector<Tensor> tensors;
  std::set<std::uint64_t> seen;
  read_keras3(file, "/", 0, seen, tensors);
  if (tensors.empty()) {
    throw DataError(source,
                    "is an HDF5 file, but none of Keras's weights: it has neither layer_names nor "
                    "groups named vars with tensors");
  }
  return tensors;
}

std::string_view without_keras_number(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const bool numbered = last != std::string_view::npos && last + 1 < name.size();
  return numbered && name[last] == '_' ? name.substr(0, last) : name;
}

std::string snake_case(const std::string& class_name) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  // Keras begins a word first at a capital followed by small letters, and then at every capital
  // that follows a small letter.
  std::string words;
  for (std::size_t i = 0; i < class_name.size(); ++i) {
    words += class_name[i];
    if (i + 2 >= class_name.size() || !is_upper(class_name[i + 1]) || !is_lower(class_name[i + 2]))
      continue;
    words += '_';
    words += class_name[++i];
    while (i + 1 < class_name.size() && is_lower(class_name[i + 1])) words += class_name[++i];
  }
  std::string text;
  for (const char c : words) {
    if (is_upper(c) && !text.empty() && is_lower(text.back())) text += '_';
    text += c;
  }
  return to_lower(std::move(text));
}

void write_keras_h5(const Path& path, const std::vector<KerasLayer>& layers, KerasLayout layout,
                    const std::vector<std::string>& classes) {
  hdf5::Writer file;
  if (!classes.empty()) file.texts("/", kClassNames, classes);
  if (layout == KerasLayout::kApplications) write_applications(file, layers);
  if (layout == KerasLayout::kKeras3) {
    write_keras3(file, layers, "");
    file.group("/vars");
  }
  write_file_atomic(path, file.finish());
}

}  // namespace trainer::checkpoint
