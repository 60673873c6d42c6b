// The config: one plain struct per section of the YAML file, each field with its default.
//
// The same field lists (config/fields.h) read a file, print the effective config and write the JSON
// Schema; nothing else in the program looks a key up by its name. Optional values that the user
// left out and that the program chooses are std::optional.
//
// To add an option: a field here, a line below fields/. Names are Keras's where Keras has one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"

namespace trainer::config {

// "100 steps", "30 seconds", "1 epoch". A count in the user's own unit.
struct Duration {
  enum class Unit { kSteps, kEpochs, kSeconds };
  double count = 0;
  Unit unit = Unit::kSteps;
  bool operator==(const Duration&) const = default;
};
std::string to_string(const Duration& duration);

// ---- Layers ------------------------------------------------------------------------------------

// One number for both directions, or [height, width].
struct Pair {
  std::int64_t height = 1;
  std::int64_t width = 1;
  bool operator==(const Pair&) const = default;
};

// "same" and "valid" are Keras's: same pads so that output = ceil(input / stride), the odd pixel
// below and to the right. A list [top, bottom, left, right] pads explicitly.
struct Padding {
  enum class Kind { kValid, kSame, kExplicit };
  Kind kind = Kind::kValid;
  std::array<std::int64_t, 4> pixels{};  // top, bottom, left, right; kExplicit only
  bool operator==(const Padding&) const = default;
};

enum class Activation {
  kLinear,
  kRelu,
  kRelu6,
  kLeakyRelu,
  kElu,
  kSigmoid,
  kTanh,
  kGelu,
  kSwish,
  kSoftmax
};

// Keras's initialisers of the same names. The variance-scaling ones use fan-in and fan-out as Keras
// computes them; normal ones are truncated at two standard deviations where Keras's are.
struct Initializer {
  enum class Kind {
    kGlorotUniform,
    kGlorotNormal,
    kHeUniform,
    kHeNormal,
    kLecunUniform,
    kLecunNormal,
    kRandomUniform,
    kRandomNormal,
    kTruncatedNormal,
    kZeros,
    kOnes,
    kConstant
  };
  Kind kind = Kind::kGlorotUniform;
  double value = 0;                 // constant
  double low = -0.05, high = 0.05;  // random_uniform
  double mean = 0, stddev = 0.05;   // random_normal, truncated_normal
  bool operator==(const Initializer&) const = default;
};

// The penalty factor * sum(w^2) is added to the loss (Keras's regularizers.L2).
struct Regularizer {
  double l2 = 0;
  bool operator==(const Regularizer&) const = default;
};

struct ConvLayer {
  std::int64_t filters = 0;  // required, > 0
  Pair kernel_size{3, 3};
  Pair strides{1, 1};
  Padding padding;
  Pair dilation_rate{1, 1};
  std::int64_t groups = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer kernel_regularizer;
};
struct DepthwiseConvLayer {
  Pair kernel_size{3, 3};
  Pair strides{1, 1};
  Padding padding;
  Pair dilation_rate{1, 1};
  std::int64_t depth_multiplier = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer depthwise_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer depthwise_regularizer;
};
// Depthwise, then 1x1: no activation between the two.
struct SeparableConvLayer {
  std::int64_t filters = 0;  // required, > 0
  Pair kernel_size{3, 3};
  Pair strides{1, 1};
  Padding padding;
  Pair dilation_rate{1, 1};
  std::int64_t depth_multiplier = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer depthwise_initializer;
  Initializer pointwise_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer depthwise_regularizer;
  Regularizer pointwise_regularizer;
};
struct MaxPoolLayer {
  Pair pool_size{2, 2};
  std::optional<Pair> strides;  // the pool size when left out
  Padding padding;
};
struct AveragePoolLayer {
  Pair pool_size{2, 2};
  std::optional<Pair> strides;
  Padding padding;  // padded pixels are not counted in the average, as in Keras
};
struct GlobalAveragePoolLayer {};
struct GlobalMaxPoolLayer {};
struct DenseLayer {
  std::int64_t units = 0;  // required, > 0
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer kernel_regularizer;
};
struct FlattenLayer {};  // height, width, channels in this order, as Keras does
struct ReshapeLayer {
  std::vector<std::int64_t> target_shape;  // without the batch; one entry may be -1
};
struct DropoutLayer {
  double rate = 0.5;  // fraction set to zero, in [0, 1); `dropout: 0.5` is short for this
};
struct BatchNormLayer {
  double momentum = 0.99;  // Keras's: moving = moving * momentum + batch * (1 - momentum)
  double epsilon = 1e-3;
  bool center = true;  // has beta
  bool scale = true;   // has gamma
  Initializer beta_initializer{Initializer::Kind::kZeros};
  Initializer gamma_initializer{Initializer::Kind::kOnes};
};
struct ActivationLayer {
  Activation function = Activation::kRelu;  // `activation: relu` is short for this
  std::optional<double> alpha;  // slope of leaky_relu or scale of elu; Keras's when left out
};
struct ReluLayer {                  // Keras's ReLU; an activation with a class of its own
  std::optional<double> max_value;  // 6 or none
};
struct ZeroPadLayer {
  std::array<std::int64_t, 4> padding{};  // top, bottom, left, right; one number means all four
};
struct AddLayer {};
struct ConcatenateLayer {};  // along the channels

using LayerKind =
    std::variant<ConvLayer, DepthwiseConvLayer, SeparableConvLayer, MaxPoolLayer, AveragePoolLayer,
                 GlobalAveragePoolLayer, GlobalMaxPoolLayer, DenseLayer, FlattenLayer, ReshapeLayer,
                 DropoutLayer, BatchNormLayer, ActivationLayer, ReluLayer, ZeroPadLayer, AddLayer,
                 ConcatenateLayer>;

// One entry of a layer list: `- conv: {filters: 32}`, `- flatten`, `- dropout: 0.5`.
struct Layer {
  LayerKind kind;
  std::string name;  // Keras's automatic name (conv2d, conv2d_1, ...) when empty
  std::vector<std::string>
      inputs;  // names of layers; the previous layer when empty; "input" is the image
  SourceLoc loc;
};

// ---- Sections ----------------------------------------------------------------------------------

enum class LossKind { kSoftmaxCrossEntropy, kBinaryCrossEntropy, kMeanSquaredError };

// The articles' DNNClassifier: flatten, hidden dense layers, one logit per class.
struct DenseClassifier {
  std::vector<std::int64_t> hidden_units;  // required
  Activation activation = Activation::kRelu;
  double dropout = 0;  // after each hidden layer, when > 0
  Initializer kernel_initializer;
  SourceLoc loc;
};

struct LayerPattern {
  std::string text;  // the name of a layer, with * and ?
  SourceLoc loc;
};

// Which layers of a backbone are not trained. Positions are those of Keras's `model.layers`, the
// input layer being number 0.
struct Freeze {
  enum class Kind { kNone, kAll, kCount, kSlice, kPatterns };
  Kind kind = Kind::kNone;
  std::int64_t count = 0;                  // the first `count` layers
  std::optional<std::int64_t> begin, end;  // Python's slice [begin:end]
  std::vector<LayerPattern> patterns;
  SourceLoc loc;  // of the value
};

// From step `at` of the run on, other layers are frozen than before.
struct Unfreeze {
  Duration at{1, Duration::Unit::kEpochs};  // required; steps or epochs
  Freeze freeze;                            // what stays frozen from there on; nothing by default
  double learning_rate_multiplier = 1;      // of the schedule's rate, from there on
  SourceLoc loc;
};

// A network of Keras's applications, with its layer names, up to the features.
struct Backbone {
  enum class Name { kVgg16, kMobileNetV2, kResNet50 };
  Name name = Name::kVgg16;  // required
  std::string weights;       // a file; the initialisers when empty
  double alpha = 1;          // mobilenet_v2: factor of the number of channels
  bool include_top = false;  // the classifier too, without its softmax, for the data set's classes
  enum class Pooling { kNone, kAverage, kMax } pooling = Pooling::kNone;  // without the top
  Freeze freeze;
  std::vector<Unfreeze> unfreeze;  // by rising `at`; one may stand without the list
  // Of the layers that are trained: statistics of the batch, or the moving ones, which then stay.
  enum class BatchNorm { kTrain, kEval } batch_norm = BatchNorm::kTrain;
  std::vector<std::string> allow_missing;  // tensors ("predictions/*") that may stay as initialised
  SourceLoc loc;
};

// Exactly one of layers, dense_classifier and backbone (with the head after it) is given.
struct Model {
  std::vector<std::int64_t> input;  // [height, width, channels]; the data set's own when empty
  std::vector<Layer> layers;
  std::optional<DenseClassifier> dense_classifier;
  std::optional<Backbone> backbone;
  std::vector<Layer> head;  // the layers after the backbone
  std::string weights;      // a file for layers or dense_classifier; the initialisers when empty
  std::vector<std::string> allow_missing;          // of `weights`
  LossKind loss = LossKind::kSoftmaxCrossEntropy;  // softmax and binary take logits
  double label_smoothing = 0;                      // in [0, 1), softmax and binary cross-entropy
  SourceLoc loc;
};

// Random changes of a training image, applied in the order of the list. Ranges and conventions are
// torchvision's transforms of the same names; rotation, shift and zoom are Keras's layers
// (bilinear, the image mirrored beyond its edges).
struct RandomFlipHorizontal {
  double probability = 0.5;
};
struct RandomFlipVertical {
  double probability = 0.5;
};
struct RandomResizedCrop {  // stands first: it chooses what is cut out of the file's image
  std::vector<double> scale{0.08, 1};        // share of the area
  std::vector<double> ratio{0.75, 4.0 / 3};  // width / height
};
struct RandomRotation {
  double degrees = 0;
};  // required; uniform in [-degrees, degrees]
struct RandomShift {
  double height = 0.1, width = 0.1;
};  // largest share of the image's side
struct RandomZoom {
  double factor = 0.1;
};  // size times a number in [1 - f, 1 + f]
struct Brightness {
  double factor = 0.2;
};  // times a number in [1 - f, 1 + f]
struct Contrast {
  double factor = 0.2;
};
struct Saturation {
  double factor = 0.2;
};
struct Hue {
  double factor = 0.05;
};  // share of the circle, at most 0.5
struct RandomErasing {
  double probability = 0.5;
  std::vector<double> scale{0.02, 0.33};
  std::vector<double> ratio{0.3, 3.3};
  std::int64_t value = 0;  // of the erased pixels
};
// The last two mix images and labels with those of another training sample. They stand last; of
// several, one is drawn for each sample.
struct MixUp {
  double alpha = 1;
};  // share of the sample itself: Beta(alpha, alpha)
struct CutMix {
  double alpha = 1;
};  // a rectangle of the other image, of the area 1 - Beta(alpha, alpha)
using AugmentationKind = std::variant<RandomFlipHorizontal, RandomFlipVertical, RandomResizedCrop,
                                      RandomRotation, RandomShift, RandomZoom, Brightness, Contrast,
                                      Saturation, Hue, RandomErasing, MixUp, CutMix>;
struct Augmentation {
  AugmentationKind kind;
  SourceLoc loc;
};

// Where a split's files are. idx: images and labels files, or a folder with the four MNIST names
// (.gz or not). npz: a file with arrays, npy: images and labels files. image_folder: a folder with
// one sub-folder a class, or a glob whose files' parent folders name the class. csv: a file.
struct Split {
  std::string path;    // a folder (idx, image_folder), an .npz or .csv file
  std::string images;  // idx or npy file, or the array's name in the .npz
  std::string labels;
  std::string glob;  // image_folder: e.g. train/**/*.jpeg, below path when that is given
  std::vector<Augmentation> augment;  // train only
  SourceLoc loc;
};

enum class DataFormat { kIdx, kNpz, kSynthetic, kDigits, kImageFolder, kCsv };
enum class Interpolation { kBilinear, kBicubic };
enum class Fit { kStretch, kCrop };
enum class OnError { kFail, kSkip, kReplace };
enum class ImageCache { kNone, kMemory, kDisk };
// What keras.applications calls `mode` of preprocess_input: tf is [-1, 1], caffe is BGR without the
// mean of ImageNet, torch is [0, 1] without mean and divided by deviation; scale is [0, 1].
enum class PreprocessPreset { kTf, kCaffe, kTorch, kScale, kNone };

// `synthetic` is random numbers in memory, for benchmarks. `digits` is the embedded, procedurally
// drawn 28x28 ten-class set: written once as IDX files below `path`, then read from there.
struct Synthetic {
  std::vector<std::int64_t> shape{28, 28, 1};  // height, width, channels
  std::int64_t classes = 10;
  std::int64_t train_samples = 4096;
  std::int64_t test_samples = 1024;
};

struct Normalize {
  double scale = 1.0 / 255.0;     // x * scale, then (x - mean) / std per channel
  std::vector<double> mean;       // one number, or one per channel; 0 when empty
  std::vector<double> std;        // likewise; 1 when empty
  bool reverse_channels = false;  // RGB becomes BGR before all that; mean and std count in BGR
};

struct Data {
  DataFormat format = DataFormat::kIdx;
  std::string path;                         // the folder of all splits, where the format has one
  std::vector<std::string> classes;         // names in label order; "0", "1", ... when empty
  std::optional<std::int64_t> num_classes;  // known from the names or the labels when left out
  Split train;
  Split validation;                    // optional
  Split test;                          // optional
  double validation_split = 0;         // fraction of train set aside, when validation is not given
  std::optional<std::int64_t> limit;   // use only the first N training samples
  std::optional<Normalize> normalize;  // at most one of the two; Normalize{} when neither
  std::optional<PreprocessPreset> preprocess;
  Synthetic synthetic;
  // Formats of image files only, down to max_file_size.
  std::vector<std::int64_t> resize;      // [height, width]; model.input's when left out
  std::optional<std::int64_t> channels;  // 1 or 3; model.input's, or 3
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;
  Fit fit = Fit::kStretch;
  double crop_fraction = 1;   // fit: crop keeps this share of the shorter side
  bool scaled_decode = true;  // JPEG at 1/2, 1/4, 1/8 where that is still large enough
  OnError on_error = OnError::kFail;
  double error_budget = 0.01;  // files; a share of them when below 1
  ImageCache cache = ImageCache::kNone;
  std::string cache_dir = "cache";  // of cache: disk
  std::int64_t max_pixels = 100'000'000;
  std::int64_t max_file_size = 256 << 20;  // bytes
  bool shuffle = true;
  std::optional<std::int64_t> prefetch;  // batches ready ahead; chosen when left out
  std::optional<std::int64_t> threads;   // loader threads; chosen when left out
  SourceLoc loc;
};

struct Sgd {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
struct RmsProp {
  double learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  double weight_decay = 0;
};
struct Adam {
  double learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
struct AdamW {
  double learning_rate = 1e-3;
  double weight_decay = 4e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
};
using OptimizerKind = std::variant<Sgd, RmsProp, Adam, AdamW>;

// The learning rate of the layers whose name matches; the last match counts.
struct LearningRateMultiplier {
  std::string match;  // with * and ?
  double value = 1;
  SourceLoc loc;
};

// `optimizer: {adam: {learning_rate: 1e-3}}`, or `optimizer: adam`. At most one clip is given.
struct Optimizer {
  OptimizerKind kind = Adam{};
  std::optional<double> clip_value;        // each element to [-v, v] (Keras clipvalue)
  std::optional<double> clip_norm;         // each gradient tensor by its own norm (clipnorm)
  std::optional<double> global_clip_norm;  // all by the common norm (global_clipnorm)
  std::int64_t accumulate = 1;             // batches summed into one update
  std::vector<LearningRateMultiplier> learning_rate_multiplier;
  std::optional<double> ema;  // momentum of the weight average used by evaluation (Keras: 0.99)
  SourceLoc loc;
};

// Schedules: the learning rate as a function of progress. `peak`s and rates that are left out are
// the optimizer's learning_rate.
struct ConstantSchedule {};
struct StepSchedule {
  Duration every{1, Duration::Unit::kEpochs};
  double factor = 0.1;
};  // lr * factor^floor(t / every)
struct ExponentialSchedule {
  Duration decay_every{1, Duration::Unit::kEpochs};
  double decay_rate = 0.9;
  bool staircase = false;
};
struct CosineSchedule {
  std::optional<Duration> decay_over;
  double alpha = 0;
};  // Keras CosineDecay; the whole training when left out
struct PolynomialSchedule {
  std::optional<Duration> decay_over;
  double end_learning_rate = 1e-4;
  double power = 1;
};  // Keras PolynomialDecay
// Article W (Martin Gorner's form), by epoch: linear from start to peak over ramp_epochs, peak for
// sustain_epochs, then (peak - floor) * decay^(epoch - ramp - sustain) + floor.
struct RampUpSchedule {
  double start = 1e-5;
  double peak = 5e-5;
  double floor = 1e-5;
  double ramp_epochs = 5;
  double sustain_epochs = 0;
  double decay = 0.8;
  enum class By {
    kEpoch,
    kStep
  } by = By::kEpoch;  // whether progress moves by whole epochs or by steps
  enum class Scale {
    kNone,
    kLinear,
    kSqrt
  } scale = Scale::kNone;  // of the peak, by the number of replicas
};
using ScheduleKind = std::variant<ConstantSchedule, StepSchedule, ExponentialSchedule,
                                  CosineSchedule, PolynomialSchedule, RampUpSchedule>;
struct WarmUp {
  Duration over{1, Duration::Unit::kEpochs};
  double start_factor = 0;
};  // linear from lr * start_factor
struct Schedule {
  ScheduleKind kind = ConstantSchedule{};
  std::optional<WarmUp>
      warm_up;  // before any of them but ramp_up; the schedule's own progress starts after it
  SourceLoc loc;
};

// Of the layers' arithmetic; parameters are float32. kTf32: float32 whose products are rounded to
// 10 bits of fraction. The device must support it.
enum class Precision { kFloat32, kTf32, kBFloat16, kFloat16 };

// What the loss of float16 is multiplied by before backward, so that small gradients do not vanish.
struct LossScale {
  std::optional<double> fixed;  // dynamic when left out: halved on overflow, doubled after a while
};

struct EarlyStop {
  std::string metric = "validation/loss";
  std::int64_t patience = 3;  // evaluations without improvement
  double min_delta = 0;
  SourceLoc loc;
};

// Whether the outputs of the frozen layers are kept, so that they are computed once an image. auto:
// where that is possible, in memory if it fits, otherwise in a file of the run folder; on: the
// same, and an error where it is not possible; memory, disk: as on, kept there.
enum class CacheFeatures { kAuto, kOn, kMemory, kDisk, kOff };
// Which activations backward computes again instead of keeping them; see lib/compile/recompute.cpp.
enum class Recompute { kNone, kBlocks };

// Samples a step and replica: a number, or the most that fit the device's memory, which
// train::settle_batch_size() finds before anything is made of the config.
class BatchSize {
 public:
  BatchSize(std::int64_t samples) : samples_(samples) {}
  static BatchSize automatic() { return {0}; }
  bool is_automatic() const { return samples_ == 0; }
  // Throws ConfigError for one that is not found yet.
  operator std::int64_t() const {
    if (samples_ == 0) fail();
    return samples_;
  }

 private:
  [[noreturn]] static void fail();
  std::int64_t samples_;
};

struct Train {
  std::optional<double> epochs;  // one of epochs and max_steps is required
  std::optional<std::int64_t> max_steps;
  BatchSize batch_size = 32;
  // MiB that `batch_size: auto` may fill on each replica's device; chosen when left out.
  std::optional<double> memory_mb;
  Precision precision = Precision::kFloat32;
  std::optional<LossScale> loss_scale;  // with kFloat16 only; dynamic when left out
  CacheFeatures cache_features = CacheFeatures::kAuto;
  Recompute recompute = Recompute::kNone;
  std::optional<EarlyStop> early_stop;
  SourceLoc loc;
};

// GPUs of this machine, a replica each.
struct Gpus {
  enum class Kind { kAll, kCount, kIndices } kind = Kind::kAll;
  std::int64_t count = 0;             // kCount: the first ones; 0: the CPU
  std::vector<std::int64_t> indices;  // kIndices: an index that comes twice has two replicas
};
// The number of replicas that it asks for; none for kAll, which depends on the machine.
std::optional<std::int64_t> replicas_of(const Gpus& gpus);

// How gradients are summed over processes; see lib/cluster/collective/gloo_communicator.h. kTree is
// another name of kHalvingDoubling, whose order of addition is a tree's. kNccl: on GPUs, where all
// but it and kAuto are refused.
enum class Collective { kAuto, kRing, kTree, kBcube, kHalvingDoubling, kNccl };
enum class ConvolutionAlgorithm { kAuto, kDirect, kWinograd };

// How batch norm treats a batch that is divided among replicas.
struct ReplicaBatchNorm {
  bool sync = false;  // statistics of the whole batch; otherwise each replica's own
};

struct Parallel {
  // How several processes train one model. kParameterServer: ps tasks of TF_CONFIG keep the
  // parameters, and workers do not wait for each other. Without a cluster both are one process.
  enum class Strategy { kAllReduce, kParameterServer } strategy = Strategy::kAllReduce;
  // With kParameterServer: a gradient is dropped when the parameters have had more updates since
  // they were pulled for it; none: never.
  std::optional<std::int64_t> max_staleness;
  enum class Device { kAuto, kCpu, kCuda } device = Device::kAuto;
  // On the CPU a number or list only counts replicas, and kAll leaves that to `replicas`.
  Gpus gpus;
  // Copies of the model in this process, each with its share of the cores and of every batch; what
  // `gpus` asks for, if that is known.
  std::int64_t replicas = 1;
  enum class LrScaling { kNone, kLinear, kSqrt };
  // Of the optimizer's learning rate, by the number of replicas; must be given for more than one.
  std::optional<LrScaling> lr_scaling;
  // Of an epoch's samples. kSample: every replica of every process takes its part of each batch.
  // kOff: each goes through all samples in an order of its own.
  enum class Shard { kSample, kOff } shard = Shard::kSample;
  bool evaluate = true;  // whether all replicas and processes evaluate; false: rank 0 alone
  // kOrdered: the same bits for any number of replicas and lanes of the same global batch.
  enum class Reduction { kFast, kOrdered } reduction = Reduction::kFast;
  std::int64_t micro_batches = 8;   // of a global batch, with kOrdered; a power of two
  std::optional<double> bucket_mb;  // MiB of gradients reduced at once; chosen when left out
  ReplicaBatchNorm batch_norm;
  bool deterministic = true;            // false permits sums whose order depends on timing
  bool pin = false;                     // whether a replica stays on cores of its own
  std::optional<std::int64_t> threads;  // processor cores to use; all when left out
  std::optional<std::int64_t> lanes;    // micro-batches computed side by side; chosen when left out
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::kAuto;
  // With several processes: the longest that they wait for each other, in seconds.
  Duration timeout{60, Duration::Unit::kSeconds};
  Collective collective = Collective::kAuto;
  SourceLoc loc;
};

struct Evaluate {
  std::optional<std::int64_t> batch_size;  // the training batch size when left out
  std::int64_t top_k = 5;                  // also reported, when there are more classes than that
  // Of `evaluate --follow`, in seconds; the first two are those of Estimator's EvalSpec.
  double start_delay_secs = 120;  // before the first evaluation
  double throttle_secs = 600;     // at least, between the starts of two evaluations
  double timeout_secs = 3600;     // without a new checkpoint: give up
};

struct Run {
  std::string dir;  // runs/<name> when empty
  Duration checkpoint_every{1, Duration::Unit::kEpochs};
  std::int64_t keep = 2;
  std::string best =
      "validation/accuracy";  // metric whose best checkpoint is kept too; "" for none
  Duration log_every{10, Duration::Unit::kSteps};
  Duration summary_every{100, Duration::Unit::kSteps};  // TensorBoard and metrics files
  Duration evaluate_every{1, Duration::Unit::kEpochs};
  bool tensorboard = true;
  bool ledger = true;                    // ledger.csv: a row a step
  std::optional<double> price_per_hour;  // of one replica's device
  SourceLoc loc;
};

struct Config {
  std::string name;  // the file's name without .yaml when empty
  std::uint64_t seed = 42;
  Model model;
  Data data;
  Optimizer optimizer;
  Schedule schedule;
  Train train;
  Parallel parallel;
  Evaluate evaluate;
  Run run;
};

// The numbers of data.normalize or data.preprocess.
Normalize normalize_of(const Data& data);
bool is_image_format(DataFormat format);
// Whether it mixes two samples.
bool is_mixing(const Augmentation& augmentation);
// Whether the training split has mixed samples, and with them shares of classes for labels.
bool mixes_samples(const Data& data);

// ---- Reading and writing -----------------------------------------------------------------------

// Where a value came from: a place in a file, "--set", an environment variable or the default.
struct Origin {
  enum class Kind { kDefault, kFile, kSet, kEnvironment } kind = Kind::kDefault;
  SourceLoc loc;
  std::string detail;  // the variable's name
};

using Environment = std::map<std::string, std::string>;

struct LoadedConfig {
  Config config;
  std::map<std::string, Origin> origins;  // by dotted path, e.g. "model.layers[2].conv.filters"
};

// One `--set a.b=c`. The value is YAML. List entries are addressed as a[2].b. Flags such as
// --epochs are given as overrides too, with their own spelling as `flag`.
struct Override {
  std::string path;
  std::string value;
  std::string flag;  // "--set" or e.g. "--epochs", for messages
};

// Reads and checks a config. Throws ConfigError with every mistake found, in file order.
// ${NAME} and ${NAME:-default} in scalars are replaced from `environment` before they are parsed.
LoadedConfig load_config(const std::string& path, const std::vector<Override>& overrides,
                         const Environment& environment);
// The same for text already in memory; `file` is used in messages.
LoadedConfig parse_config(const std::string& text, const std::string& file,
                          const std::vector<Override>& overrides, const Environment& environment);

// The effective config as YAML, every field written out; reads back to the same config.
std::string to_yaml(const Config& config);
// Every leaf as (dotted path, value), in schema order: what `plan` prints beside the origins.
std::vector<std::pair<std::string, std::string>> leaves(const Config& config);

// A leaf, or a choice such as `optimizer`, that differs between two configs; "absent" for a value
// that one of them does not have.
struct Change {
  std::string key, before, now;
  // kError: what the model computes, how its input is prepared, or whose slots the optimizer keeps.
  enum class Severity { kWarning, kError } severity = Severity::kWarning;
};
// What a run that is resumed with the config `now` does otherwise than the one that made the
// checkpoint with `before`. Keys that may change freely, because they only say where things lie,
// what computes them or what is reported, are left out.
std::vector<Change> resume_changes(const Config& before, const Config& now);

// JSON Schema (draft 2020-12) of a config file.
std::string json_schema();

}  // namespace trainer::config
