// Every key of a config file: one list per struct. Reading, printing the effective config, its
// leaves and the JSON Schema are four visitors of these lists (decode.h, emit.cpp, schema.cpp).
//
// A visitor offers
//   v(key, field, help, rule)             a key with its value
//   v.group(keys, required)               of these keys at most one, or exactly one, is given
//   v.choice(what, required)              the alternatives that follow are such a group
//   v.alternative(key, help, active, activate, list)   `list(inner)` lists the fields below key
//   v.shorthand(key)                      a bare value stands for {key: value}
//   v.definition(name)                    a name in the JSON Schema, for what is used many times
//   v.located(loc)                        where the struct stands in the file
#pragma once

#include <type_traits>

#include "config/rule.h"

namespace trainer::config {

// ---- Initializers, regularizers -----------------------------------------------------------------

template <class V>
void fields(V& v, Initializer& s) {
  using Kind = Initializer::Kind;
  v.definition("initializer");
  v.choice("an initializer", true);
  for (const auto& [kind, name] : spellings(Kind{})) {
    v.alternative(
        name, "Keras's initializer of this name.", s.kind == kind, [&, k = kind] { s.kind = k; },
        [&, k = kind](auto& inner) {
          if (k == Kind::kConstant) inner("value", s.value, "The value; default 0.", any());
          if (k == Kind::kRandomUniform) {
            inner("low", s.low, "Lower end of the range; default -0.05.", any());
            inner("high", s.high, "Upper end of the range; default 0.05.", any());
          }
          if (k == Kind::kRandomNormal || k == Kind::kTruncatedNormal) {
            inner("mean", s.mean, "Mean; default 0.", any());
            inner("stddev", s.stddev, "Standard deviation; default 0.05.", at_least(0));
          }
        });
  }
}

template <class V>
void fields(V& v, Regularizer& s) {
  v.definition("regularizer");
  v("l2", s.l2, "The penalty l2 * sum(w^2) is added to the loss; default 0.", at_least(0));
}

// ---- Layers -------------------------------------------------------------------------------------

template <class V>
void fields(V& v, ConvLayer& s) {
  v("filters", s.filters, "Number of output channels.", at_least(1).must());
  v("kernel_size", s.kernel_size, "Window in pixels, one number or [height, width]; default 3.",
    at_least(1));
  v("strides", s.strides, "Step of the window in pixels; default 1.", at_least(1));
  v("padding", s.padding, "valid, same or [top, bottom, left, right] in pixels; default valid.",
    at_least(0));
  v("dilation_rate", s.dilation_rate, "Distance of the window's pixels; default 1.", at_least(1));
  v("groups", s.groups, "Channel groups convolved apart; default 1.", at_least(1));
  v("activation", s.activation, "Function applied to the output; default linear.", any());
  v("use_bias", s.use_bias, "Whether a bias is added; default true.", any());
  v("kernel_initializer", s.kernel_initializer, "Start of the kernel; default glorot_uniform.",
    any());
  v("bias_initializer", s.bias_initializer, "Start of the bias; default zeros.", any());
  v("kernel_regularizer", s.kernel_regularizer, "Penalty on the kernel; default none.", any());
}

template <class V>
void fields(V& v, DepthwiseConvLayer& s) {
  v("kernel_size", s.kernel_size, "Window in pixels, one number or [height, width]; default 3.",
    at_least(1));
  v("strides", s.strides, "Step of the window in pixels; default 1.", at_least(1));
  v("padding", s.padding, "valid, same or [top, bottom, left, right] in pixels; default valid.",
    at_least(0));
  v("dilation_rate", s.dilation_rate, "Distance of the window's pixels; default 1.", at_least(1));
  v("depth_multiplier", s.depth_multiplier, "Output channels per input channel; default 1.",
    at_least(1));
  v("activation", s.activation, "Function applied to the output; default linear.", any());
  v("use_bias", s.use_bias, "Whether a bias is added; default true.", any());
  v("depthwise_initializer", s.depthwise_initializer,
    "Start of the kernel; default glorot_uniform.", any());
  v("bias_initializer", s.bias_initializer, "Start of the bias; default zeros.", any());
  v("depthwise_regularizer", s.depthwise_regularizer, "Penalty on the kernel; default none.",
    any());
}

template <class V>
void fields(V& v, SeparableConvLayer& s) {
  v("filters", s.filters, "Number of output channels.", at_least(1).must());
  v("kernel_size", s.kernel_size, "Window in pixels, one number or [height, width]; default 3.",
    at_least(1));
  v("strides", s.strides, "Step of the window in pixels; default 1.", at_least(1));
  v("padding", s.padding, "valid, same or [top, bottom, left, right] in pixels; default valid.",
    at_least(0));
  v("dilation_rate", s.dilation_rate, "Distance of the window's pixels; default 1.", at_least(1));
  v("depth_multiplier", s.depth_multiplier, "Depthwise channels per input channel; default 1.",
    at_least(1));
  v("activation", s.activation, "Function applied to the output; default linear.", any());
  v("use_bias", s.use_bias, "Whether a bias is added; default true.", any());
  v("depthwise_initializer", s.depthwise_initializer,
    "Start of the depthwise kernel; default glorot_uniform.", any());
  v("pointwise_initializer", s.pointwise_initializer,
    "Start of the 1x1 kernel; default glorot_uniform.", any());
  v("bias_initializer", s.bias_initializer, "Start of the bias; default zeros.", any());
  v("depthwise_regularizer", s.depthwise_regularizer,
    "Penalty on the depthwise kernel; default none.", any());
  v("pointwise_regularizer", s.pointwise_regularizer, "Penalty on the 1x1 kernel; default none.",
    any());
}

template <class V>
void fields(V& v, MaxPoolLayer& s) {
  v.shorthand("pool_size");
  v("pool_size", s.pool_size, "Window in pixels; default 2.", at_least(1));
  v("strides", s.strides, "Step of the window in pixels; the pool size when left out.",
    at_least(1));
  v("padding", s.padding, "valid, same or [top, bottom, left, right] in pixels; default valid.",
    at_least(0));
}

template <class V>
void fields(V& v, AveragePoolLayer& s) {
  v.shorthand("pool_size");
  v("pool_size", s.pool_size, "Window in pixels; default 2.", at_least(1));
  v("strides", s.strides, "Step of the window in pixels; the pool size when left out.",
    at_least(1));
  v("padding", s.padding, "valid, same or [top, bottom, left, right]; padded pixels do not count.",
    at_least(0));
}

template <class V>
void fields(V&, GlobalAveragePoolLayer&) {}
template <class V>
void fields(V&, GlobalMaxPoolLayer&) {}
template <class V>
void fields(V&, FlattenLayer&) {}
template <class V>
void fields(V&, AddLayer&) {}
template <class V>
void fields(V&, ConcatenateLayer&) {}

template <class V>
void fields(V& v, DenseLayer& s) {
  v.shorthand("units");
  v("units", s.units, "Number of outputs.", at_least(1).must());
  v("activation", s.activation, "Function applied to the output; default linear.", any());
  v("use_bias", s.use_bias, "Whether a bias is added; default true.", any());
  v("kernel_initializer", s.kernel_initializer, "Start of the weights; default glorot_uniform.",
    any());
  v("bias_initializer", s.bias_initializer, "Start of the bias; default zeros.", any());
  v("kernel_regularizer", s.kernel_regularizer, "Penalty on the weights; default none.", any());
}

template <class V>
void fields(V& v, ReshapeLayer& s) {
  v.shorthand("target_shape");
  v("target_shape", s.target_shape, "Shape of a sample; one entry may be -1, for what is left.",
    at_least(-1).items(1).must());
}

template <class V>
void fields(V& v, DropoutLayer& s) {
  v.shorthand("rate");
  v("rate", s.rate, "Fraction set to zero in training, in [0, 1); default 0.5.", below(0, 1));
}

template <class V>
void fields(V& v, BatchNormLayer& s) {
  v("momentum", s.momentum, "Share of the moving statistics that is kept a step; default 0.99.",
    within(0, 1));
  v("epsilon", s.epsilon, "Added to the variance; default 1e-3.", above(0));
  v("center", s.center, "Whether there is a beta; default true.", any());
  v("scale", s.scale, "Whether there is a gamma; default true.", any());
  v("beta_initializer", s.beta_initializer, "Start of beta; default zeros.", any());
  v("gamma_initializer", s.gamma_initializer, "Start of gamma; default ones.", any());
}

template <class V>
void fields(V& v, ActivationLayer& s) {
  v.shorthand("function");
  v("function", s.function, "The function; default relu.", any());
  v("alpha", s.alpha, "Slope of leaky_relu (default 0.3) or scale of elu (default 1).",
    at_least(0));
}

template <class V>
void fields(V& v, ReluLayer& s) {
  v.shorthand("max_value");
  v("max_value", s.max_value, "Largest output, 6; no limit when left out.", any());
}

template <class V>
void fields(V& v, ZeroPadLayer& s) {
  v.shorthand("padding");
  v("padding", s.padding, "Zeros added, in pixels: one number or [top, bottom, left, right].",
    at_least(0).must());
}

struct LayerName {
  const char* key;
  const char* help;
};
template <class T>
LayerName layer_name() {
  if constexpr (std::is_same_v<T, ConvLayer>) return {"conv", "Convolution."};
  if constexpr (std::is_same_v<T, DepthwiseConvLayer>)
    return {"depthwise_conv", "Convolution of each channel on its own."};
  if constexpr (std::is_same_v<T, SeparableConvLayer>)
    return {"separable_conv", "Depthwise convolution, then 1x1 convolution."};
  if constexpr (std::is_same_v<T, MaxPoolLayer>) return {"max_pool", "Maximum of each window."};
  if constexpr (std::is_same_v<T, AveragePoolLayer>)
    return {"average_pool", "Mean of each window."};
  if constexpr (std::is_same_v<T, GlobalAveragePoolLayer>)
    return {"global_average_pool", "Mean of each channel."};
  if constexpr (std::is_same_v<T, GlobalMaxPoolLayer>)
    return {"global_max_pool", "Maximum of each channel."};
  if constexpr (std::is_same_v<T, DenseLayer>) return {"dense", "Fully connected layer."};
  if constexpr (std::is_same_v<T, FlattenLayer>)
    return {"flatten", "Height, width and channels as one vector."};
  if constexpr (std::is_same_v<T, ReshapeLayer>) return {"reshape", "Another shape."};
  if constexpr (std::is_same_v<T, DropoutLayer>)
    return {"dropout", "Sets a random part to zero in training."};
  if constexpr (std::is_same_v<T, BatchNormLayer>) return {"batch_norm", "Batch normalization."};
  if constexpr (std::is_same_v<T, ActivationLayer>) return {"activation", "A function."};
  if constexpr (std::is_same_v<T, ReluLayer>) return {"relu", "Keras's ReLU."};
  if constexpr (std::is_same_v<T, ZeroPadLayer>) return {"zero_pad", "A border of zeros."};
  if constexpr (std::is_same_v<T, AddLayer>) return {"add", "Sum of the inputs."};
  if constexpr (std::is_same_v<T, ConcatenateLayer>)
    return {"concatenate", "The inputs side by side, along the channels."};
}

template <class V, class... Kinds>
void layer_kinds(V& v, Layer& s, std::variant<Kinds...>& kind) {
  (v.alternative(
       layer_name<Kinds>().key, layer_name<Kinds>().help, std::holds_alternative<Kinds>(kind),
       [&] { kind.template emplace<Kinds>(); },
       [&](auto& inner) {
         inner.located(s.loc);
         fields(inner, std::get<Kinds>(kind));
         inner("name", s.name, "Name of the layer; Keras's automatic name when left out.", any());
         inner("inputs", s.inputs,
               "Names of the layers before this one, 'input' being the image; the previous layer "
               "when left out.",
               any());
       }),
   ...);
}

template <class V>
void fields(V& v, Layer& s) {
  v.definition("layer");
  v.choice("a layer", true);
  layer_kinds(v, s, s.kind);
}

// ---- Model, data --------------------------------------------------------------------------------

template <class V>
void fields(V& v, DenseClassifier& s) {
  v.located(s.loc);
  v("hidden_units", s.hidden_units, "Outputs of each hidden layer, e.g. [256, 32].",
    at_least(1).items(1).must());
  v("activation", s.activation, "Function after each hidden layer; default relu.", any());
  v("dropout", s.dropout, "Dropout rate after each hidden layer, in [0, 1); default 0, none.",
    below(0, 1));
  v("kernel_initializer", s.kernel_initializer, "Start of the weights; default glorot_uniform.",
    any());
}

template <class V>
void fields(V& v, Unfreeze& s) {
  v.located(s.loc);
  v("at", s.at, "Steps or epochs after which it takes effect, e.g. 3 epochs.", no_seconds().must());
  v("freeze", s.freeze, "Layers that stay frozen from there on, as in freeze; default none.",
    any());
  v("learning_rate_multiplier", s.learning_rate_multiplier,
    "The learning rate from there on is multiplied by this; default 1.", above(0));
}

template <class V>
void fields(V& v, Backbone& s) {
  v.located(s.loc);
  v.shorthand("name");
  v("name", s.name, "The network of Keras's applications: vgg16, mobilenet_v2 or resnet50.",
    any().must());
  v("weights", s.weights,
    "File with its weights: Keras .h5, .weights.h5 or .keras, .safetensors or .npz; random when "
    "left out.",
    any());
  v("alpha", s.alpha, "mobilenet_v2: factor of the number of channels; default 1.", above(0));
  v("include_top", s.include_top, "Whether its classifier is included; default false.", any());
  v("pooling", s.pooling, "Global pooling at its end: none, avg or max; default none.", any());
  v("freeze", s.freeze,
    "Layers that are not trained: a slice of Keras's layer list such as \"[:-4]\", a number of "
    "first layers, names with * and ?, all or none; default none.",
    any());
  v("unfreeze", s.unfreeze,
    "Later changes of freeze: {at: 3 epochs, freeze: \"[:-20]\"}, or a list of such; default none.",
    any());
  v("batch_norm", s.batch_norm,
    "Trained layers normalise with the batch (train) or with the moving statistics, which then "
    "stay (eval); default train.",
    any());
  v("allow_missing", s.allow_missing,
    "Tensors that the file need not have, such as \"predictions/*\"; default none.", any());
}

template <class V>
void fields(V& v, Model& s) {
  v.located(s.loc);
  v("input", s.input, "Image as [height, width, channels]; the data set's own when left out.",
    at_least(1).items(3, 3));
  v("layers", s.layers, "The layers, in order.", any());
  v("dense_classifier", s.dense_classifier,
    "Premade: flatten, hidden dense layers, one logit per class.", any());
  v("backbone", s.backbone, "A network of Keras's applications, with pretrained weights.", any());
  v("head", s.head, "The layers after the backbone, in order.", any());
  v.group({"layers", "dense_classifier", "backbone"}, true);
  v("weights", s.weights, "File with the weights to start from, for layers and dense_classifier.",
    any());
  v("allow_missing", s.allow_missing, "Tensors that the file need not have; default none.", any());
  v("loss", s.loss, "What training minimizes, on logits; default softmax_cross_entropy.", any());
  v("label_smoothing", s.label_smoothing,
    "Share of the label spread over all classes, in [0, 1); default 0.", below(0, 1));
}

// One alternative of a std::variant whose fields stand below `key`.
template <class T, class V, class Variant>
void kind(V& v, Variant& value, const char* key, const char* help) {
  v.alternative(
      key, help, std::holds_alternative<T>(value), [&] { value.template emplace<T>(); },
      [&](auto& inner) { fields(inner, std::get<T>(value)); });
}

template <class V>
void fields(V& v, RandomFlipHorizontal& s) {
  v.shorthand("probability");
  v("probability", s.probability, "Share of the images that are mirrored; default 0.5.",
    within(0, 1));
}

template <class V>
void fields(V& v, RandomFlipVertical& s) {
  v.shorthand("probability");
  v("probability", s.probability, "Share of the images that are turned over; default 0.5.",
    within(0, 1));
}

template <class V>
void fields(V& v, RandomResizedCrop& s) {
  v("scale", s.scale, "Least and largest share of the area; default [0.08, 1].",
    Rule{.low = 0, .high = 1, .low_open = true}.items(2, 2));
  v("ratio", s.ratio, "Least and largest width / height; default [0.75, 1.333].",
    above(0).items(2, 2));
}

template <class V>
void fields(V& v, RandomRotation& s) {
  v.shorthand("degrees");
  v("degrees", s.degrees, "Largest angle to either side, in degrees.", within(0, 180).must());
}

template <class V>
void fields(V& v, RandomShift& s) {
  v("height", s.height, "Largest move up or down, as a share of the height; default 0.1.",
    within(0, 1));
  v("width", s.width, "Largest move to a side, as a share of the width; default 0.1.",
    within(0, 1));
}

template <class V>
void fields(V& v, RandomZoom& s) {
  v.shorthand("factor");
  v("factor", s.factor, "The size is multiplied by a number in [1 - factor, 1 + factor].",
    below(0, 1));
}

template <class V>
void fields(V& v, Brightness& s) {
  v.shorthand("factor");
  v("factor", s.factor, "Pixels are multiplied by a number in [1 - factor, 1 + factor].",
    at_least(0));
}

template <class V>
void fields(V& v, Contrast& s) {
  v.shorthand("factor");
  v("factor", s.factor, "The distance to the mean grey is multiplied likewise; default 0.2.",
    at_least(0));
}

template <class V>
void fields(V& v, Saturation& s) {
  v.shorthand("factor");
  v("factor", s.factor, "The distance to the pixel's grey is multiplied likewise; default 0.2.",
    at_least(0));
}

template <class V>
void fields(V& v, Hue& s) {
  v.shorthand("factor");
  v("factor", s.factor, "Largest turn of the hue, as a share of the circle; default 0.05.",
    within(0, 0.5));
}

template <class V>
void fields(V& v, RandomErasing& s) {
  v("probability", s.probability, "Share of the images with an erased part; default 0.5.",
    within(0, 1));
  v("scale", s.scale, "Least and largest share of the area; default [0.02, 0.33].",
    within(0, 1).items(2, 2));
  v("ratio", s.ratio, "Least and largest height / width; default [0.3, 3.3].",
    above(0).items(2, 2));
  v("value", s.value, "Value of the erased pixels, 0 to 255; default 0.", within(0, 255));
}

template <class V>
void fields(V& v, MixUp& s) {
  v.shorthand("alpha");
  v("alpha", s.alpha, "The sample's share is drawn from Beta(alpha, alpha); default 1.", above(0));
}

template <class V>
void fields(V& v, CutMix& s) {
  v.shorthand("alpha");
  v("alpha", s.alpha, "The sample's share is drawn from Beta(alpha, alpha); default 1.", above(0));
}

template <class V>
void fields(V& v, Augmentation& s) {
  v.definition("augmentation");
  v.located(s.loc);
  v.choice("an augmentation", true);
  kind<RandomFlipHorizontal>(v, s.kind, "random_flip_horizontal", "Left and right swapped.");
  kind<RandomFlipVertical>(v, s.kind, "random_flip_vertical", "Top and bottom swapped.");
  kind<RandomResizedCrop>(v, s.kind, "random_resized_crop",
                          "A random part of the file's image, resized; stands first.");
  kind<RandomRotation>(v, s.kind, "random_rotation", "Turned about the centre.");
  kind<RandomShift>(v, s.kind, "random_shift", "Moved.");
  kind<RandomZoom>(v, s.kind, "random_zoom", "Enlarged or shrunk about the centre.");
  kind<Brightness>(v, s.kind, "brightness", "Darker or brighter.");
  kind<Contrast>(v, s.kind, "contrast", "Less or more contrast.");
  kind<Saturation>(v, s.kind, "saturation", "Paler or more vivid.");
  kind<Hue>(v, s.kind, "hue", "Other colours.");
  kind<RandomErasing>(v, s.kind, "random_erasing", "A rectangle filled with one value.");
  kind<MixUp>(v, s.kind, "mixup", "Image and label averaged with another sample's; stands last.");
  kind<CutMix>(v, s.kind, "cutmix",
               "A rectangle of another sample's image, and its share of the label; stands last.");
}

template <class V>
void fields(V& v, Split& s) {
  v.definition("split");
  v.located(s.loc);
  v.shorthand("path");
  v("path", s.path,
    "A folder with the four MNIST-named files (idx) or one folder a class (image_folder), an .npz "
    "file or a .csv file.",
    any());
  v("images", s.images, "The file with the images (idx, npy), or the array's name in the .npz.",
    any());
  v("labels", s.labels, "The file with the labels (idx, npy), or the array's name in the .npz.",
    any());
  v("glob", s.glob,
    "image_folder: the files, e.g. train/**/*.jpeg; the folder a file is in names its class.",
    any());
  v("augment", s.augment, "Random changes of the training images, in order; default none.", any());
}

template <class V>
void fields(V& v, Synthetic& s) {
  v("shape", s.shape, "Image as [height, width, channels]; default [28, 28, 1].",
    at_least(1).items(3, 3).must());
  v("classes", s.classes, "Number of classes; default 10.", at_least(1));
  v("train_samples", s.train_samples, "Training samples; default 4096.", at_least(1));
  v("test_samples", s.test_samples, "Test samples; default 1024.", at_least(0));
}

template <class V>
void fields(V& v, Normalize& s) {
  v("scale", s.scale, "Pixels are multiplied by this first; default 1/255.", any());
  v("mean", s.mean, "Then this is subtracted: one number or one per channel; default 0.", any());
  v("std", s.std, "Then they are divided by this: one number or one per channel; default 1.",
    above(0));
  v("reverse_channels", s.reverse_channels,
    "Whether RGB becomes BGR first, so that mean and std count in BGR; default false.", any());
}

template <class V>
void fields(V& v, Data& s) {
  v.located(s.loc);
  v("format", s.format, "How the files are written; default idx.", any());
  v("path", s.path, "Folder of all splits.", any());
  v("classes", s.classes, "Class names in label order; \"0\", \"1\", ... when left out.", any());
  v("num_classes", s.num_classes, "Number of classes; known from names or labels when left out.",
    at_least(1));
  v("train", s.train, "Where the training samples are.", any());
  v("validation", s.validation, "Where the validation samples are; default none.", any());
  v("test", s.test, "Where the test samples are; default none.", any());
  v("validation_split", s.validation_split,
    "Fraction of the training samples set aside for validation, in [0, 1); default 0.",
    below(0, 1));
  v("limit", s.limit, "Use only the first N training samples; default all.", at_least(1));
  v("normalize", s.normalize, "From pixels to numbers: (x * scale - mean) / std.", any());
  v("preprocess", s.preprocess, "A preset of normalize: tf, caffe, torch, scale or none.", any());
  v.group({"normalize", "preprocess"}, false);
  v("synthetic", s.synthetic, "Size of the random data of format synthetic.", any());
  v("resize", s.resize, "Size of the images as [height, width]; model.input's when left out.",
    at_least(1).items(2, 2));
  v("channels", s.channels, "1 (grey) or 3 (RGB); model.input's, or 3, when left out.",
    within(1, 3));
  v("interpolation", s.interpolation, "How images are resized; default bilinear.", any());
  v("antialias", s.antialias,
    "Whether shrinking averages over all pixels, as Pillow and torchvision do, or reads only the "
    "nearest, as tf.image.resize does; default true.",
    any());
  v("fit", s.fit, "stretch to the size, or crop: shorter side, then centre; default stretch.",
    any());
  v("crop_fraction", s.crop_fraction,
    "Share of the shorter side that fit: crop keeps, e.g. 0.875; default 1.",
    {.low = 0, .high = 1, .low_open = true});
  v("scaled_decode", s.scaled_decode,
    "Whether JPEGs are decoded at 1/2, 1/4 or 1/8 where that is large enough; default true.",
    any());
  v("on_error", s.on_error, "What a damaged file leads to; default fail.", any());
  v("error_budget", s.error_budget,
    "Damaged files that on_error lets pass, a share of all when below 1; default 0.01.",
    at_least(0));
  v("cache", s.cache, "Where decoded images are kept; default none.", any());
  v("cache_dir", s.cache_dir, "Folder of cache: disk; default cache.", any());
  v("max_pixels", s.max_pixels, "Largest image that is decoded; default 100 million.", at_least(1));
  v("max_file_size", s.max_file_size, "Largest image file in bytes; default 256 MiB.", at_least(1));
  v("shuffle", s.shuffle, "Whether each epoch has an order of its own; default true.", any());
  v("prefetch", s.prefetch, "Batches kept ready ahead; chosen when left out.", at_least(1));
  v("threads", s.threads, "Threads that load; chosen when left out.", at_least(1));
}

// ---- Optimizer, schedule ------------------------------------------------------------------------

template <class V>
void fields(V& v, Sgd& s) {
  v("learning_rate", s.learning_rate, "Learning rate; default 0.01.", at_least(0));
  v("momentum", s.momentum, "Momentum, in [0, 1]; default 0.", within(0, 1));
  v("nesterov", s.nesterov, "Nesterov's form of momentum; default false.", any());
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step; default 0.", at_least(0));
}

template <class V>
void fields(V& v, RmsProp& s) {
  v("learning_rate", s.learning_rate, "Learning rate; default 1e-3.", at_least(0));
  v("rho", s.rho, "Decay of the mean square; default 0.9.", below(0, 1));
  v("momentum", s.momentum, "Momentum, in [0, 1]; default 0.", within(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite; default 1e-7.", above(0));
  v("centered", s.centered, "Divide by the variance, not the mean square; default false.", any());
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step; default 0.", at_least(0));
}

template <class V>
void fields(V& v, Adam& s) {
  v("learning_rate", s.learning_rate, "Learning rate; default 1e-3.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean; default 0.9.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square; default 0.999.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite; default 1e-7.", above(0));
  v("amsgrad", s.amsgrad, "Divide by the largest mean square so far; default false.", any());
}

template <class V>
void fields(V& v, AdamW& s) {
  v("learning_rate", s.learning_rate, "Learning rate; default 1e-3.", at_least(0));
  v("weight_decay", s.weight_decay, "Decoupled weight decay a step; default 4e-3.", at_least(0));
  v("beta_1", s.beta_1, "Decay of the mean; default 0.9.", below(0, 1));
  v("beta_2", s.beta_2, "Decay of the mean square; default 0.999.", below(0, 1));
  v("epsilon", s.epsilon, "Keeps the division finite; default 1e-7.", above(0));
  v("amsgrad", s.amsgrad, "Divide by the largest mean square so far; default false.", any());
}

template <class V>
void fields(V& v, LearningRateMultiplier& s) {
  v.located(s.loc);
  v("match", s.match, "Name of a layer, with * and ?.", any().must());
  v("value", s.value, "Its learning rate is multiplied by this.", at_least(0).must());
}

template <class V>
void fields(V& v, Optimizer& s) {
  v.located(s.loc);
  v.choice("an optimizer", true);
  kind<Sgd>(v, s.kind, "sgd", "Stochastic gradient descent, with or without momentum.");
  kind<RmsProp>(v, s.kind, "rmsprop", "RMSprop.");
  kind<Adam>(v, s.kind, "adam", "Adam.");
  kind<AdamW>(v, s.kind, "adamw", "Adam with decoupled weight decay.");
  v("clip_value", s.clip_value, "Each gradient element is kept within [-v, v]; default no clip.",
    above(0));
  v("clip_norm", s.clip_norm, "Largest norm of each gradient tensor; default no clip.", above(0));
  v("global_clip_norm", s.global_clip_norm, "Largest norm of all gradients; default no clip.",
    above(0));
  v.group({"clip_value", "clip_norm", "global_clip_norm"}, false);
  v("accumulate", s.accumulate, "Batches summed into one update; default 1.", at_least(1));
  v("learning_rate_multiplier", s.learning_rate_multiplier,
    "Learning rates of layers, as a list of {match, value}; the last match counts.", any());
  v("ema", s.ema, "Momentum of the weight average used by evaluation, e.g. 0.99; default none.",
    inside(0, 1));
}

template <class V>
void fields(V&, ConstantSchedule&) {}

template <class V>
void fields(V& v, StepSchedule& s) {
  v("every", s.every, "Steps or epochs between two changes; default 1 epoch.", no_seconds());
  v("factor", s.factor, "The rate is multiplied by this; default 0.1.", above(0));
}

template <class V>
void fields(V& v, ExponentialSchedule& s) {
  v("decay_every", s.decay_every, "Steps or epochs per decay; default 1 epoch.", no_seconds());
  v("decay_rate", s.decay_rate, "Factor per decay; default 0.9.", above(0));
  v("staircase", s.staircase, "Whether it decays at whole decays only; default false.", any());
}

template <class V>
void fields(V& v, CosineSchedule& s) {
  v("decay_over", s.decay_over, "Steps or epochs of the decay; the whole training when left out.",
    no_seconds());
  v("alpha", s.alpha, "Share of the rate left at the end; default 0.", within(0, 1));
}

template <class V>
void fields(V& v, PolynomialSchedule& s) {
  v("decay_over", s.decay_over, "Steps or epochs of the decay; the whole training when left out.",
    no_seconds());
  v("end_learning_rate", s.end_learning_rate, "Rate at the end; default 1e-4.", at_least(0));
  v("power", s.power, "Power of the remaining share; default 1, linear.", above(0));
}

template <class V>
void fields(V& v, RampUpSchedule& s) {
  v("start", s.start, "Rate at the start; default 1e-5.", above(0));
  v("peak", s.peak, "Rate after the ramp; default 5e-5.", above(0));
  v("floor", s.floor, "Rate that the decay approaches; default 1e-5.", above(0));
  v("ramp_epochs", s.ramp_epochs, "Epochs from start to peak; default 5.", at_least(0));
  v("sustain_epochs", s.sustain_epochs, "Epochs at the peak; default 0.", at_least(0));
  v("decay", s.decay, "Factor an epoch after that, in (0, 1]; default 0.8.",
    {.low = 0, .high = 1, .low_open = true});
  v("by", s.by, "Whether the rate changes each epoch or each step; default epoch.", any());
  v("scale", s.scale, "How the peak grows with the number of replicas; default none.", any());
}

template <class V>
void fields(V& v, WarmUp& s) {
  v("over", s.over, "Steps or epochs of the warm-up; default 1 epoch.", no_seconds());
  v("start_factor", s.start_factor, "Share of the rate at the start; default 0.", within(0, 1));
}

template <class V>
void fields(V& v, Schedule& s) {
  v.located(s.loc);
  v.choice("a schedule", false);
  kind<ConstantSchedule>(v, s.kind, "constant", "The optimizer's learning rate throughout.");
  kind<StepSchedule>(v, s.kind, "step", "rate * factor^floor(t / every).");
  kind<ExponentialSchedule>(v, s.kind, "exponential", "rate * decay_rate^(t / decay_every).");
  kind<CosineSchedule>(v, s.kind, "cosine", "Half a cosine down to alpha * rate.");
  kind<PolynomialSchedule>(v, s.kind, "polynomial", "A polynomial down to end_learning_rate.");
  kind<RampUpSchedule>(v, s.kind, "ramp_up", "Linear from start to peak, then decay to floor.");
  v("warm_up", s.warm_up, "Linear rise before the schedule; default none.", any());
}

// ---- Train, parallel, evaluate, run -------------------------------------------------------------

template <class V>
void fields(V& v, EarlyStop& s) {
  v.located(s.loc);
  v("metric", s.metric, "Metric that has to improve; default validation/loss.", any());
  v("patience", s.patience, "Evaluations without improvement before it stops; default 3.",
    at_least(1));
  v("min_delta", s.min_delta, "Smallest change that counts as improvement; default 0.",
    at_least(0));
}

template <class V>
void fields(V& v, Train& s) {
  v.located(s.loc);
  v("epochs", s.epochs, "Length of the training in epochs.", above(0));
  v("max_steps", s.max_steps, "Length of the training in steps.", at_least(1));
  v.group({"epochs", "max_steps"}, true);
  v("batch_size", s.batch_size, "Samples a step and replica; default 32.", at_least(1));
  v("precision", s.precision, "Arithmetic of the layers; default float32.", any());
  v("cache_features", s.cache_features,
    "Whether outputs of frozen layers are kept, once an image: auto, on, memory, disk or off; "
    "default auto.",
    any());
  v("early_stop", s.early_stop, "Stop when a metric no longer improves; default never.", any());
}

template <class V>
void fields(V& v, ReplicaBatchNorm& s) {
  v("sync", s.sync,
    "Whether batch norm in training takes its statistics over all replicas' samples; default "
    "false: each over its own, and the moving statistics are averaged.",
    any());
}

template <class V>
void fields(V& v, Parallel& s) {
  v.located(s.loc);
  v("strategy", s.strategy,
    "How several processes train one model: all_reduce (default), in step, or parameter_server, "
    "asynchronously by way of the ps tasks of TF_CONFIG.",
    any());
  v("max_staleness", s.max_staleness,
    "parameter_server: a gradient is dropped when its parameters have had more updates since they "
    "were pulled; unbounded when left out.",
    at_least(0));
  v("device", s.device, "Where to train; default auto.", any());
  v("gpus", s.gpus, "Number of GPUs; default 0.", any());
  v("replicas", s.replicas,
    "Copies of the model in this process, each with its share of the cores and of every batch; "
    "default 1.",
    within(1, 64));
  v("lr_scaling", s.lr_scaling,
    "How the number of replicas scales the optimizer's learning rate; must be given for more than "
    "one.",
    any());
  v("reduction", s.reduction,
    "ordered: the same bits for any number of replicas of the same global batch; default fast.",
    any());
  v("micro_batches", s.micro_batches,
    "Parts that reduction: ordered cuts the global batch into, a power of two; default 8.",
    within(1, 4096));
  v("bucket_mb", s.bucket_mb,
    "MiB of gradients that are reduced at once while backward still runs; 0: all of them after it; "
    "chosen when left out.",
    at_least(0));
  v("batch_norm", s.batch_norm, "Batch norm with several replicas.", any());
  v("deterministic", s.deterministic,
    "Whether a run gives the same bits every time; default true. false permits sums whose order "
    "depends on timing; the CPU has none.",
    any());
  v("pin", s.pin,
    "Whether each replica's threads stay on cores of their own, for machines that do nothing else; "
    "default false.",
    any());
  v("threads", s.threads, "Processor cores to use; all when left out.", at_least(1));
  v("lanes", s.lanes, "Micro-batches computed side by side; chosen when left out.", at_least(1));
  v("convolution", s.convolution, "Algorithm of convolutions; default auto.", any());
  v("timeout", s.timeout,
    "Longest time that processes wait for each other; default 60 seconds. One that is silent for "
    "half of it "
    "counts as gone.",
    any());
  v("collective", s.collective, "How processes sum gradients; default auto.", any());
}

template <class V>
void fields(V& v, Evaluate& s) {
  v("batch_size", s.batch_size, "Samples a batch; the training batch size when left out.",
    at_least(1));
  v("top_k", s.top_k, "Also report whether the label is among the k best; default 5.", at_least(1));
  v("start_delay_secs", s.start_delay_secs,
    "evaluate --follow: seconds before the first evaluation; default 120.", at_least(0));
  v("throttle_secs", s.throttle_secs,
    "evaluate --follow: least seconds between the starts of two evaluations; default 600.",
    at_least(0));
  v("timeout_secs", s.timeout_secs,
    "evaluate --follow: ends when no new checkpoint came for so many seconds; default 3600.",
    above(0));
}

template <class V>
void fields(V& v, Run& s) {
  v.located(s.loc);
  v("dir", s.dir, "Folder of the run; runs/<name> when left out.", any());
  v("checkpoint_every", s.checkpoint_every, "Steps, epochs or seconds; default 1 epoch.", any());
  v("keep", s.keep, "Checkpoints kept; default 2.", at_least(1));
  v("best", s.best,
    "Metric whose best checkpoint is kept too, \"\" for none; default "
    "validation/accuracy.",
    any());
  v("log_every", s.log_every, "Steps, epochs or seconds; default 10 steps.", any());
  v("summary_every", s.summary_every,
    "Steps, epochs or seconds between points of the metrics files; default 100 steps.", any());
  v("evaluate_every", s.evaluate_every, "Steps, epochs or seconds; default 1 epoch.", any());
  v("tensorboard", s.tensorboard, "Whether TensorBoard files are written; default true.", any());
}

template <class V>
void fields(V& v, Config& s) {
  v("name", s.name, "Name of the run; the file's name when left out.", any());
  v("seed", s.seed, "Seed of everything random; default 42.", at_least(0));
  v("model", s.model, "The network and its loss.", any().must());
  v("data", s.data, "The data set.", any().must());
  v("optimizer", s.optimizer, "How gradients change the weights; default adam.", any());
  v("schedule", s.schedule, "The learning rate over time; default constant.", any());
  v("train", s.train, "How long and in which batches.", any().must());
  v("parallel", s.parallel, "What computes.", any());
  v("evaluate", s.evaluate, "How the model is measured.", any());
  v("run", s.run, "What a run leaves behind, and how often.", any());
}

}  // namespace trainer::config
