#include "results/exported_model.h"

namespace trainer::results {

static void fields(FieldVisitor& v, ExportedModel::Input& input) {
  v("name", input.name, "The name of the input.");
  v("type", input.type, "Its type, float32 or uint8. The values are 0 to 255 in both.");
  v("shape", input.shape, {"pixels", 0},
    "Its height, width and channels, after the number of images. Three channels are red, green "
    "and blue.");
}

static void fields(FieldVisitor& v, ExportedResize& resize) {
  v("fit", resize.fit,
    "stretch: both sides are resized to `size`. crop: the image is resized so that it just covers "
    "`size`, the longer side rounded down, and the middle is cut out, from half of the difference, "
    "rounded half to even. pad: it is resized to lie within `size`, the shorter side rounded half "
    "to even, between black borders.");
  v("size", resize.size, {"pixels", 0}, "Height and width before the crop.");
  v("filter", resize.filter, "Triangle, or the cubic of Keys with -0.5, at the centres of pixels.");
  v("antialias", resize.antialias, "Whether the filter is widened by the scale when it shrinks.");
  v("scaled_decode", resize.scaled_decode,
    "Whether a JPEG is decoded at the least of 1/8, 1/4 and 1/2 of its size at which the resized "
    "part is at least as large as after resizing.");
  v("weight_bits", resize.weight_bits, {"bits", 0},
    "Fraction bits of the weights of the filter, one less if a weight is 0.999 or larger. Each is "
    "rounded, and the largest one takes the difference of the sum to one.");
  v("row_bits", resize.row_bits, {"bits", 0},
    "Fraction bits between the passes, the vertical and then the horizontal one. Sums are rounded "
    "half up, and at the end cut to 0 to 255.");
  v.when_present("range", resize.range, "The values of 16-bit files that become 0 and 255.");
}

static void fields(FieldVisitor& v, ExportedModel::Normalize& normalize) {
  v("reverse_channels", normalize.reverse_channels, "Whether the channels are reversed first.");
  v("scale", normalize.scale, "Each value x becomes (x * scale - mean) / std.");
  v("mean", normalize.mean, "One number per channel.");
  v("std", normalize.std, "One number per channel.");
}

static void fields(FieldVisitor& v, ExportedModel::Output& output) {
  v("name", output.name, "The output, logits or probabilities, a number per class.");
  v("activation", output.activation,
    "What makes probabilities of logits: softmax, sigmoid, or none. One logit with sigmoid is that "
    "of the second of two classes.");
  v("several_labels", output.several_labels,
    "Whether the classes are labels of which each image may have several.");
  v.when_present("temperature", output.temperature, "The model has divided the logits by it.");
  v.when_present("thresholds", output.thresholds,
                 "The output above which an image has the label, by class.");
}

void fields(FieldVisitor& v, ExportedOperatingPoint& point) {
  v("criterion", point.criterion, "The option with which it was found.");
  v.when_present("costs", point.costs,
                 "The cost of each decision, a row per true class; the class of the least expected "
                 "cost is decided for.");
  v.when_present("positive_class", point.positive_class, "The positive one of two classes.");
  v.when_present("log_odds", point.log_odds,
                 "The logarithm of its odds from which on it is decided for; null for never.");
}

void fields(FieldVisitor& v, ExportedModel& model) {
  v("input", model.input, "The input of the model.");
  v.when_present("resize", model.resize,
                 "How image files, turned upright by their EXIF orientation, become the input; "
                 "left out where images "
                 "are not resized.");
  v("normalize", model.normalize, "What the model itself does to its input.");
  v("classes", model.classes, "The names of the classes, in the order of the output.");
  v("output", model.output, "The output of the model.");
  v.when_present("operating_point", model.operating_point,
                 "The stored operating point, which `trainer predict` uses.");
  v("run", model.run, "The name of the config.");
  v("step", model.step, kSteps, "The step of the checkpoint.");
}

}  // namespace trainer::results
