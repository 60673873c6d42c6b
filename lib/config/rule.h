// What a field's value must satisfy beyond its type, and the spelling of enumerators.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace trainer::config {

// Whether a value may differ when a run is resumed.
enum class Resume {
  kSame,        // no
  kSameIfZero,  // from one number to another, but not from or to 0, which has no optimizer slot
  kWarn,        // yes, with a warning
  kFree         // yes: it does not change the result
};

// The range holds for each number of a value. Read like a sentence: at_least(1).must().
struct Rule {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  double limit =
      std::numeric_limits<double>::infinity();  // more is a mistake; no part of the range
  bool required = false;
  bool seconds = true;                             // durations: whether seconds are a unit
  bool bare = false;                               // lists: one entry may stand without the list
  std::size_t min_items = 0, max_items = 1000000;  // lists; an optional list may be empty too
  bool never_empty = false;                        // but for this
  bool recursive = false;                          // lists: of the entries that hold the list
  bool or_switch = false;                          // maps: true stands for {}, false for nothing
  std::optional<Resume> resume = {};               // as the section above it when left out
  const char* same_as = "";  // the key beside it whose value it takes when left out; "": none

  Rule must() const {
    Rule rule = *this;
    rule.required = true;
    return rule;
  }
  Rule or_one() const {
    Rule rule = *this;
    rule.bare = true;
    return rule;
  }
  Rule not_empty() const {
    Rule rule = *this;
    rule.never_empty = true;
    return rule;
  }
  Rule of_own_kind() const {
    Rule rule = *this;
    rule.recursive = true;
    return rule;
  }
  Rule or_true() const {
    Rule rule = *this;
    rule.or_switch = true;
    return rule;
  }
  Rule on_resume(Resume value) const {
    Rule rule = *this;
    rule.resume = value;
    return rule;
  }
  Rule or_as(const char* key) const {
    Rule rule = *this;
    rule.same_as = key;
    return rule;
  }
  Rule items(std::size_t least, std::size_t most = 1000000) const {
    Rule rule = *this;
    rule.min_items = least;
    rule.max_items = most;
    return rule;
  }
};

inline Rule any() { return {}; }
inline Rule same() { return any().on_resume(Resume::kSame); }
inline Rule warn() { return any().on_resume(Resume::kWarn); }
inline Rule free() { return any().on_resume(Resume::kFree); }
inline Rule at_least(double low) { return {.low = low}; }
inline Rule above(double low) { return {.low = low, .low_open = true}; }
inline Rule within(double low, double high) { return {.low = low, .high = high}; }
inline Rule below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
inline Rule inside(double low, double high) {
  return {.low = low, .high = high, .low_open = true, .high_open = true};
}
inline Rule no_seconds() { return {.seconds = false}; }

// More threads than any machine has cores, pixels, channels and samples than any memory holds:
// mistakes, which would overflow sizes or exhaust the system before anything else says so.
inline constexpr std::int64_t kMostThreads = 4096, kMostPixels = 1 << 20, kMostChannels = 1 << 24,
                              kMostSamples = 1 << 24, kMostRounds = 1000;
inline Rule pixels(double low) { return {.low = low, .limit = kMostPixels}; }
inline Rule count_up_to(double limit) { return {.low = 1, .limit = limit}; }

// The most replicas that one process can have.
inline constexpr std::int64_t kMaxReplicas = 64;

// Spellings of an enumeration, the first of each enumerator being the one that is printed.
template <class E>
using Spellings = std::vector<std::pair<E, std::string_view>>;

inline const Spellings<Activation>& spellings(Activation) {
  static const Spellings<Activation> kNames{{Activation::kLinear, "linear"},
                                            {Activation::kRelu, "relu"},
                                            {Activation::kRelu6, "relu6"},
                                            {Activation::kLeakyRelu, "leaky_relu"},
                                            {Activation::kElu, "elu"},
                                            {Activation::kSigmoid, "sigmoid"},
                                            {Activation::kTanh, "tanh"},
                                            {Activation::kGelu, "gelu"},
                                            {Activation::kSwish, "swish"},
                                            {Activation::kSoftmax, "softmax"},
                                            {Activation::kHardSigmoid, "hard_sigmoid"},
                                            {Activation::kHardSwish, "hard_swish"},
                                            {Activation::kSelu, "selu"}};
  return kNames;
}
inline const Spellings<Initializer::Kind>& spellings(Initializer::Kind) {
  using Kind = Initializer::Kind;
  static const Spellings<Kind> kNames{{Kind::kGlorotUniform, "glorot_uniform"},
                                      {Kind::kGlorotNormal, "glorot_normal"},
                                      {Kind::kHeUniform, "he_uniform"},
                                      {Kind::kHeNormal, "he_normal"},
                                      {Kind::kLecunUniform, "lecun_uniform"},
                                      {Kind::kLecunNormal, "lecun_normal"},
                                      {Kind::kRandomUniform, "random_uniform"},
                                      {Kind::kRandomNormal, "random_normal"},
                                      {Kind::kTruncatedNormal, "truncated_normal"},
                                      {Kind::kZeros, "zeros"},
                                      {Kind::kOnes, "ones"},
                                      {Kind::kConstant, "constant"}};
  return kNames;
}
inline const Spellings<LossKind>& spellings(LossKind) {
  static const Spellings<LossKind> kNames{{LossKind::kSoftmaxCrossEntropy, "softmax_cross_entropy"},
                                          {LossKind::kBinaryCrossEntropy, "binary_cross_entropy"},
                                          {LossKind::kMeanSquaredError, "mean_squared_error"}};
  return kNames;
}
inline const Spellings<Backbone::Name>& spellings(Backbone::Name) {
  using Name = Backbone::Name;
  static const Spellings<Name> kNames{{Name::kVgg16, "vgg16"},
                                      {Name::kMobileNetV2, "mobilenet_v2"},
                                      {Name::kResNet50, "resnet50"},
                                      {Name::kResNet18, "resnet18"},
                                      {Name::kResNet34, "resnet34"},
                                      {Name::kResNet101, "resnet101"},
                                      {Name::kDenseNet121, "densenet121"},
                                      {Name::kEfficientNetB0, "efficientnet_b0"},
                                      {Name::kEfficientNetB1, "efficientnet_b1"},
                                      {Name::kEfficientNetB2, "efficientnet_b2"},
                                      {Name::kEfficientNetB3, "efficientnet_b3"},
                                      {Name::kMobileNetV3Small, "mobilenet_v3_small"},
                                      {Name::kMobileNetV3Large, "mobilenet_v3_large"},
                                      {Name::kConvNeXtTiny, "convnext_tiny"}};
  return kNames;
}
inline const Spellings<UpSampling>& spellings(UpSampling) {
  using Kind = UpSampling;
  static const Spellings<Kind> kNames{{Kind::kNearest, "nearest"}, {Kind::kBilinear, "bilinear"}};
  return kNames;
}
inline const Spellings<Backbone::Pooling>& spellings(Backbone::Pooling) {
  using Pooling = Backbone::Pooling;
  static const Spellings<Pooling> kNames{
      {Pooling::kNone, "none"}, {Pooling::kAverage, "avg"}, {Pooling::kMax, "max"}};
  return kNames;
}
inline const Spellings<Backbone::BatchNorm>& spellings(Backbone::BatchNorm) {
  using BatchNorm = Backbone::BatchNorm;
  static const Spellings<BatchNorm> kNames{{BatchNorm::kTrain, "train"},
                                           {BatchNorm::kEval, "eval"}};
  return kNames;
}
inline const Spellings<DataFormat>& spellings(DataFormat) {
  static const Spellings<DataFormat> kNames{{DataFormat::kIdx, "idx"},
                                            {DataFormat::kNpz, "npz"},
                                            {DataFormat::kSynthetic, "synthetic"},
                                            {DataFormat::kDigits, "digits"},
                                            {DataFormat::kImageFolder, "image_folder"},
                                            {DataFormat::kCsv, "csv"},
                                            {DataFormat::kCifar, "cifar"},
                                            {DataFormat::kTfRecord, "tfrecord"},
                                            {DataFormat::kWebDataset, "webdataset"}};
  return kNames;
}
inline const Spellings<AutoAugment::Policy>& spellings(AutoAugment::Policy) {
  using Policy = AutoAugment::Policy;
  static const Spellings<Policy> kNames{
      {Policy::kImageNet, "imagenet"}, {Policy::kCifar10, "cifar10"}, {Policy::kSvhn, "svhn"}};
  return kNames;
}
inline const Spellings<Interpolation>& spellings(Interpolation) {
  static const Spellings<Interpolation> kNames{{Interpolation::kBilinear, "bilinear"},
                                               {Interpolation::kBicubic, "bicubic"}};
  return kNames;
}
inline const Spellings<Fit>& spellings(Fit) {
  static const Spellings<Fit> kNames{{Fit::kStretch, "stretch"}, {Fit::kCrop, "crop"}};
  return kNames;
}
inline const Spellings<OnError>& spellings(OnError) {
  static const Spellings<OnError> kNames{
      {OnError::kFail, "fail"}, {OnError::kSkip, "skip"}, {OnError::kReplace, "replace"}};
  return kNames;
}
inline const Spellings<Sampling>& spellings(Sampling) {
  static const Spellings<Sampling> kNames{{Sampling::kUniform, "uniform"},
                                          {Sampling::kBalanced, "balanced"}};
  return kNames;
}
inline const Spellings<ImageCache>& spellings(ImageCache) {
  static const Spellings<ImageCache> kNames{
      {ImageCache::kNone, "none"}, {ImageCache::kMemory, "memory"}, {ImageCache::kDisk, "disk"}};
  return kNames;
}
inline const Spellings<PreprocessPreset>& spellings(PreprocessPreset) {
  static const Spellings<PreprocessPreset> kNames{{PreprocessPreset::kTf, "tf"},
                                                  {PreprocessPreset::kCaffe, "caffe"},
                                                  {PreprocessPreset::kTorch, "torch"},
                                                  {PreprocessPreset::kScale, "scale"},
                                                  {PreprocessPreset::kNone, "none"}};
  return kNames;
}
inline const Spellings<OneCycleSchedule::Anneal>& spellings(OneCycleSchedule::Anneal) {
  using Anneal = OneCycleSchedule::Anneal;
  static const Spellings<Anneal> kNames{{Anneal::kCosine, "cosine"}, {Anneal::kLinear, "linear"}};
  return kNames;
}
inline const Spellings<RampUpSchedule::By>& spellings(RampUpSchedule::By) {
  using By = RampUpSchedule::By;
  static const Spellings<By> kNames{{By::kEpoch, "epoch"}, {By::kStep, "step"}};
  return kNames;
}
inline const Spellings<RampUpSchedule::Scale>& spellings(RampUpSchedule::Scale) {
  using Scale = RampUpSchedule::Scale;
  static const Spellings<Scale> kNames{
      {Scale::kNone, "none"}, {Scale::kLinear, "linear"}, {Scale::kSqrt, "sqrt"}};
  return kNames;
}
inline const Spellings<Precision>& spellings(Precision) {
  static const Spellings<Precision> kNames{
      {Precision::kFloat32, "float32"},   {Precision::kTf32, "tf32"},
      {Precision::kBFloat16, "bfloat16"}, {Precision::kFloat16, "float16"},
      {Precision::kFloat32, "fp32"},      {Precision::kBFloat16, "bf16"},
      {Precision::kFloat16, "fp16"}};
  return kNames;
}
inline const Spellings<CacheFeatures>& spellings(CacheFeatures) {
  static const Spellings<CacheFeatures> kNames{{CacheFeatures::kAuto, "auto"},
                                               {CacheFeatures::kOn, "on"},
                                               {CacheFeatures::kMemory, "memory"},
                                               {CacheFeatures::kDisk, "disk"},
                                               {CacheFeatures::kOff, "off"}};
  return kNames;
}
inline const Spellings<Recompute>& spellings(Recompute) {
  static const Spellings<Recompute> kNames{{Recompute::kNone, "none"},
                                           {Recompute::kBlocks, "blocks"}};
  return kNames;
}
inline const Spellings<ConvolutionAlgorithm>& spellings(ConvolutionAlgorithm) {
  using Algorithm = ConvolutionAlgorithm;
  static const Spellings<Algorithm> kNames{{Algorithm::kAuto, "auto"},
                                           {Algorithm::kDirect, "direct"},
                                           {Algorithm::kWinograd, "winograd"}};
  return kNames;
}
inline const Spellings<Collective>& spellings(Collective) {
  static const Spellings<Collective> kNames{{Collective::kAuto, "auto"},
                                            {Collective::kRing, "ring"},
                                            {Collective::kTree, "tree"},
                                            {Collective::kBcube, "bcube"},
                                            {Collective::kHalvingDoubling, "halving_doubling"},
                                            {Collective::kNccl, "nccl"}};
  return kNames;
}
inline const Spellings<Parallel::Shard>& spellings(Parallel::Shard) {
  static const Spellings<Parallel::Shard> kNames{{Parallel::Shard::kSample, "sample"},
                                                 {Parallel::Shard::kOff, "off"}};
  return kNames;
}
inline const Spellings<Parallel::Strategy>& spellings(Parallel::Strategy) {
  using Strategy = Parallel::Strategy;
  static const Spellings<Strategy> kNames{{Strategy::kAllReduce, "all_reduce"},
                                          {Strategy::kParameterServer, "parameter_server"}};
  return kNames;
}
inline const Spellings<Parallel::LrScaling>& spellings(Parallel::LrScaling) {
  using Scaling = Parallel::LrScaling;
  static const Spellings<Scaling> kNames{
      {Scaling::kNone, "none"}, {Scaling::kLinear, "linear"}, {Scaling::kSqrt, "sqrt"}};
  return kNames;
}
inline const Spellings<Parallel::Reduction>& spellings(Parallel::Reduction) {
  using Reduction = Parallel::Reduction;
  static const Spellings<Reduction> kNames{{Reduction::kFast, "fast"},
                                           {Reduction::kOrdered, "ordered"}};
  return kNames;
}
inline const Spellings<DeviceKind>& spellings(DeviceKind) {
  using Device = DeviceKind;
  static const Spellings<Device> kNames{
      {Device::kAuto, "auto"}, {Device::kCpu, "cpu"}, {Device::kCuda, "cuda"}};
  return kNames;
}

// The enumerator that a word spells; nullopt for other words.
template <class E>
std::optional<E> parse_enum(std::string_view word) {
  for (const auto& [enumerator, name] : spellings(E{})) {
    if (name == word) return enumerator;
  }
  return std::nullopt;
}

// All spellings, in their order.
template <class E>
std::vector<std::string> enum_words() {
  std::vector<std::string> words;
  for (const auto& [enumerator, name] : spellings(E{})) words.emplace_back(name);
  return words;
}

template <class E>
std::string_view spell(E value) {
  for (const auto& [enumerator, name] : spellings(E{})) {
    if (enumerator == value) return name;
  }
  return "";
}

}  // namespace trainer::config
