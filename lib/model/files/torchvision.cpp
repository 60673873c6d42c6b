// Converts torchvision's state dicts of VGG16 and the ResNets, saved with safetensors, to Keras's
// names and layouts.
//
// Convolutions are [out, in, kh, kw] there and [kh, kw, in, out] here; linear layers [out, in] and
// [in, out]. The first linear layer of VGG16 reads channels x height x width, ours height x width x
// channels.
#include "model/files/torchvision.h"

#include <map>
#include <optional>

#include "base/error.h"
#include "config/pretrained.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;

// [out, in, kh, kw] -> [kh, kw, in, out]
void transpose_convolution(Tensor& tensor) {
  const std::int64_t out = tensor.shape[0], in = tensor.shape[1];
  const std::int64_t pixels = tensor.shape[2] * tensor.shape[3];
  std::vector<float> values(tensor.values.size());
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        values[(p * in + i) * out + o] = tensor.values[(o * in + i) * pixels + p];
      }
    }
  }
  tensor.values = std::move(values);
  tensor.shape = Shape{tensor.shape[2], tensor.shape[3], in, out};
}

// [out, channels * pixels] -> [pixels * channels, out]; for one pixel this is the transpose.
void transpose_linear(Tensor& tensor, std::int64_t pixels) {
  const std::int64_t out = tensor.shape[0], in = tensor.shape[1];
  const std::int64_t channels = in / pixels;
  std::vector<float> values(tensor.values.size());
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        values[(p * channels + c) * out + o] = tensor.values[(o * channels + c) * pixels + p];
      }
    }
  }
  tensor.values = std::move(values);
  tensor.shape = Shape{in, out};
}

using Names = std::map<std::string, std::string>;  // torchvision's module -> Keras's layer

Names vgg16_names() {
  constexpr int kConvolutions[] = {2, 2, 3, 3, 3};
  Names names{{"classifier.0", "fc1"}, {"classifier.3", "fc2"}, {"classifier.6", "predictions"}};
  int module = 0, block = 0;
  for (const int count : kConvolutions) {
    ++block;
    for (int i = 1; i <= count; ++i, module += 2) {
      names[concat("features.", module)] = concat("block", block, "_conv", i);
    }
    ++module;  // skips the pooling
  }
  return names;
}

// ResNet18's and 34's layers have the names of torchvision's modules.
Names own_names(const std::vector<Tensor>& file) {
  Names names;
  for (const Tensor& tensor : file) {
    const std::size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos || tensor.name.find('/') != std::string::npos) continue;
    names[tensor.name.substr(0, dot)] = tensor.name.substr(0, dot);
  }
  return names;
}

bool is_norm(const std::string& layer) {
  const std::size_t dot = layer.rfind('.');
  const std::string last = layer.substr(dot == std::string::npos ? 0 : dot + 1);
  return layer.ends_with("_bn") || last.starts_with("bn") || layer.ends_with("downsample.1");
}

// ResNet50 and 101 differ in the blocks of the third stage.
Names bottleneck_names(int third_stage) {
  const int stages[] = {3, 4, third_stage, 3};
  Names names{{"conv1", "conv1_conv"}, {"bn1", "conv1_bn"}, {"fc", "predictions"}};
  int layer = 0;
  for (const int blocks : stages) {
    ++layer;
    for (int i = 0; i < blocks; ++i) {
      const std::string from = concat("layer", layer, '.', i, '.');
      const std::string to = concat("conv", layer + 1, "_block", i + 1, '_');
      for (int k = 1; k <= 3; ++k) {
        names[concat(from, "conv", k)] = concat(to, k, "_conv");
        names[concat(from, "bn", k)] = concat(to, k, "_bn");
      }
      names[from + "downsample.0"] = to + "0_conv";
      names[from + "downsample.1"] = to + "0_bn";
    }
  }
  return names;
}

std::optional<std::string> weight_name(const std::string& weight, bool norm) {
  if (weight == "weight") return norm ? "gamma" : "kernel";
  if (weight == "bias") return norm ? "beta" : "bias";
  if (weight == "running_mean") return "moving_mean";
  if (weight == "running_var") return "moving_variance";
  return std::nullopt;
}

constexpr std::int64_t kVgg16Pixels = 7 * 7;  // pixels of the features that the classifier reads

}  // namespace

std::vector<Tensor> from_torchvision(config::Backbone::Name backbone, std::vector<Tensor> file) {
  using Name = config::Backbone::Name;
  const bool vgg16 = backbone == Name::kVgg16;
  const bool own = config::is_from_torchvision(backbone);
  const bool bottlenecks = backbone == Name::kResNet50 || backbone == Name::kResNet101;
  if (!vgg16 && !own && !bottlenecks) return file;
  const Names names = vgg16 ? vgg16_names()
                      : own ? own_names(file)
                            : bottleneck_names(backbone == Name::kResNet50 ? 6 : 23);
  std::vector<Tensor> result;
  std::vector<std::string> convolutions;
  for (Tensor& tensor : file) {
    const std::size_t dot = tensor.name.rfind('.');
    const std::string module = tensor.name.substr(0, dot == std::string::npos ? 0 : dot);
    const std::string weight = dot == std::string::npos ? "" : tensor.name.substr(dot + 1);
    if (weight == "num_batches_tracked") continue;
    const auto found = names.find(module);
    if (found != names.end()) {
      const auto name = weight_name(weight, is_norm(found->second));
      if (name) tensor.name = found->second + '/' + *name;
      if (weight == "weight" && tensor.shape.rank() == 4) {
        transpose_convolution(tensor);
        convolutions.push_back(found->second);
      }
      if (weight == "weight" && tensor.shape.rank() == 2) {
        const bool features = module == "classifier.0" && tensor.shape[1] % kVgg16Pixels == 0;
        transpose_linear(tensor, features ? kVgg16Pixels : 1);
      }
    }
    result.push_back(std::move(tensor));
  }
  if (!bottlenecks) return result;
  // Keras's convolutions before batch norm have a bias, which torchvision's lack: it becomes zero.
  for (const std::string& layer : convolutions) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i].name != layer + "/kernel") continue;
      const std::int64_t filters = result[i].shape[3];
      result.push_back({layer + "/bias", {filters}, std::vector<float>(filters, 0.0f)});
      break;
    }
  }
  return result;
}

}  // namespace trainer::model
