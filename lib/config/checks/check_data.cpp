#include <set>

#include "base/text.h"
#include "config/checks/checks.h"

namespace trainer::config {
namespace {

void check_split(Checks& checks, Split which) {
  const SplitFiles& split = checks.config().data.files(which);
  const std::string path = concat("data.", to_string(which));
  if (split.images.empty() != split.labels.empty()) {
    const bool images = split.labels.empty();
    checks.report(path, std::string("'") + (images ? "images" : "labels") + "' needs '" +
                            (images ? "labels" : "images") + "' beside it");
  }
  if (!split.glob.empty() && checks.config().data.format != DataFormat::kImageFolder) {
    checks.report(path + ".glob", "belongs to format: image_folder only");
  }
}

bool ordered(const std::vector<double>& range) { return range.size() != 2 || range[0] <= range[1]; }

void check_mixing(Checks& checks, const std::string& path) {
  if (checks.config().model.loss == LossKind::kMeanSquaredError) {
    checks.report(path,
                  "makes labels that are shares of classes, for softmax_cross_entropy and "
                  "binary_cross_entropy only; model.loss is mean_squared_error");
  }
}

// Each overload checks the keys of one augmentation against each other; the others have nothing to
// check.
template <class Kind>
void check_values(Checks& /*checks*/, const std::string& /*path*/, const Kind& /*kind*/) {}

void check_values(Checks& checks, const std::string& path, const RandomResizedCrop& crop) {
  if (!ordered(crop.scale) || !ordered(crop.ratio)) {
    checks.report(path, "scale and ratio are [least, largest]");
  }
}

void check_values(Checks& checks, const std::string& path, const GaussianBlur& blur) {
  if (blur.kernel_size % 2 == 0) checks.report(path, "kernel_size must be odd");
  if (!ordered(blur.sigma)) checks.report(path, "sigma is [least, largest]");
}

void check_values(Checks& checks, const std::string& path, const RandAugment& policy) {
  if (policy.magnitude < policy.num_magnitude_bins) return;
  checks.report(path, concat("magnitude must be less than num_magnitude_bins, here ",
                             policy.num_magnitude_bins));
}

void check_values(Checks& checks, const std::string& path, const TimmRandAugment& policy) {
  if (policy.magnitude <= policy.max_magnitude) return;
  checks.report(path,
                concat("magnitude must be at most max_magnitude, here ", policy.max_magnitude));
}

void check_values(Checks& checks, const std::string& path, const RandomErasing& erasing) {
  if (erasing.mode != RandomErasing::Mode::kValue && erasing.value != 0) {
    checks.report(path, concat("value belongs to mode: value, and the mode is ",
                               spell(erasing.mode), "; remove one of them"));
  }
  if (!ordered(erasing.scale) || !ordered(erasing.ratio)) {
    checks.report(path, "scale and ratio are [least, largest]");
  }
}

// Returns whether a change of an image depends on its channels being grey or RGB.
bool changes_colours(const Augmentation& augmentation) {
  const AugmentationKind& kind = augmentation.kind;
  return std::holds_alternative<Contrast>(kind) || std::holds_alternative<Saturation>(kind) ||
         std::holds_alternative<Hue>(kind) || std::holds_alternative<RandomGrayscale>(kind) ||
         std::holds_alternative<RandAugment>(kind) ||
         std::holds_alternative<TrivialAugment>(kind) ||
         std::holds_alternative<AutoAugment>(kind) || std::holds_alternative<TimmRandAugment>(kind);
}

// Returns data.channels, or the channels of model.input, from which it is taken later.
std::int64_t find_channels(const Config& config) {
  const std::vector<std::int64_t>& input = config.model.input;
  return config.data.channels.value_or(input.size() == 3 ? input[2] : 3);
}

void check_augment(Checks& checks) {
  for (const Split split : {Split::kValidation, Split::kTest}) {
    if (!checks.config().data.files(split).augment.empty()) {
      checks.report(concat("data.", to_string(split), ".augment"),
                    "only training images are changed at random; move it to data.train");
    }
  }
  const auto& list = checks.config().data.train.augment;
  const std::int64_t channels = find_channels(checks.config());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = concat("data.train.augment[", i, ']');
    if (channels != 1 && channels != 3 && changes_colours(list[i])) {
      checks.report(path,
                    concat("changes grey and RGB images only; these have ", channels, " channels"));
    }
    if (is_mixing(list[i])) {
      check_mixing(checks, path);
    } else if (i > 0 && is_mixing(list[i - 1])) {
      checks.report(path, "mixup and cutmix stand last: they mix what the other changes have made");
    }
    if (i > 0 && std::holds_alternative<RandomResizedCrop>(list[i].kind)) {
      checks.report(path, "random_resized_crop must stand first");
    }
    std::visit([&](const auto& kind) { check_values(checks, path, kind); }, list[i].kind);
  }
}

// Checks that other formats than image files give no key for image files.
void check_image_keys(Checks& checks) {
  const Data& data = checks.config().data;
  // The effective config has all keys, so that only a value other than the default is a mistake.
  const std::pair<const char*, bool> changed[] = {
      {"resize", !data.resize.empty()},
      {"channels", data.channels.has_value()},
      {"range", data.range.has_value()},
      {"group_by", !data.group_by.empty()},
      {"relabel", !data.relabel.empty()},
      {"class_order", data.class_order.has_value()},
      {"on_conflict", data.on_conflict != OnConflict::kKeep},
      {"interpolation", data.interpolation != Interpolation::kBilinear},
      {"fit", data.fit != Fit::kStretch},
      {"on_error", data.on_error != OnError::kFail},
      {"cache", data.cache != ImageCache::kNone}};
  for (const auto& [key, is_changed] : changed) {
    if (is_changed) {
      checks.report(concat("data.", key),
                    "works with files of images only: the formats image_folder, csv, tfrecord and "
                    "webdataset");
    }
  }
}

void check_csv(Checks& checks) {
  const Csv& csv = checks.config().data.csv;
  const bool is_csv = checks.config().data.format == DataFormat::kCsv;
  for (const auto& [key, value] :
       {std::pair{"image_column", csv.image_column}, std::pair{"label_column", csv.label_column},
        std::pair{"weight_column", csv.weight_column}, std::pair{"separator", csv.separator},
        std::pair{"root", csv.root}, std::pair{"ending", csv.ending},
        std::pair{"label_separator", csv.label_separator}}) {
    if (!value.empty() && !is_csv) {
      checks.report(concat("data.csv.", key), "belongs to format: csv only");
    }
  }
  const Model& model = checks.config().model;
  if (csv.uncertain && (!is_csv || model.loss != LossKind::kBinaryCrossEntropy)) {
    checks.report("data.csv.uncertain",
                  "belongs to columns of labels: format: csv with model.loss: "
                  "binary_cross_entropy");
  }
  if (csv.separator.size() > 1 && csv.separator != "tab") {
    checks.report("data.csv.separator", "must be one character, or tab");
  }
  if (csv.label_separator.empty() || !is_csv) return;
  if (csv.label_separator.size() > 1) {
    checks.report("data.csv.label_separator", "must be one character");
  } else if (csv.label_separator == csv.separator) {
    checks.report("data.csv.label_separator", "must differ from data.csv.separator");
  }
  if (model.loss != LossKind::kBinaryCrossEntropy) {
    checks.report("data.csv.label_separator",
                  concat("gives an image several labels, but model.loss: ", spell(model.loss),
                         " takes one; give model.loss: binary_cross_entropy"));
  }
}

void check_images(Checks& checks) {
  const Data& data = checks.config().data;
  if (!is_image_format(data.format)) {
    check_image_keys(checks);
    return;
  }
  if (checks.given("data") && data.path.empty() && !data.train.given()) {
    checks.report("data", "does not name the training samples: give train: {path: ...}");
  }
  const Model& model = checks.config().model;
  if (data.resize.empty() && model.input.empty() && !model.backbone) {
    checks.report("data",
                  "needs 'resize', [height, width]: image files differ in size; or give "
                  "model.input");
  }
  if (!data.channels && model.input.size() == 3 && model.input[2] > kMaxBands) {
    checks.report("model.input", concat("image files give at most ", kMaxBands, " channels"));
  }
  if (data.crop_fraction < 1 && data.fit != Fit::kCrop) {
    checks.report("data.crop_fraction", "belongs to fit: crop");
  }
  const bool crops = !data.train.augment.empty() &&
                     std::holds_alternative<RandomResizedCrop>(data.train.augment[0].kind);
  if (data.cache == ImageCache::kDisk && crops) {
    checks.report("data.cache",
                  "disk keeps images of one size, but random_resized_crop needs the whole "
                  "ones; use memory or none");
  }
  const bool bgr_or_torch =
      data.preprocess == PreprocessPreset::kCaffe || data.preprocess == PreprocessPreset::kTorch;
  if (bgr_or_torch && data.channels && *data.channels != 3) {
    checks.report("data.preprocess",
                  "needs images of 3 channels; use tf or scale, or data.normalize in its place");
  }
}

void check_classes(Checks& checks) {
  const Data& data = checks.config().data;
  std::set<std::string> names;
  for (std::size_t i = 0; i < data.classes.size(); ++i) {
    if (!names.insert(data.classes[i]).second) {
      checks.report(concat("data.classes[", i, ']'),
                    "class '" + data.classes[i] + "' is given twice");
    }
    if (!is_line_of_text(data.classes[i])) {
      checks.report(
          concat("data.classes[", i, ']'),
          "class '" + escaped(data.classes[i]) + "' must be UTF-8 without control characters");
    }
  }
  const auto count = std::ssize(data.classes);
  if (data.class_order && count > 0) {
    checks.report("data.class_order",
                  "cannot be given beside data.classes, which is the order; remove one");
  }
  if (data.num_classes && count > 0 && *data.num_classes != count) {
    checks.report("data.num_classes",
                  concat("is ", *data.num_classes, ", but data.classes names ", count));
  }
  const bool is_synthetic = data.format == DataFormat::kSynthetic;
  if (is_synthetic && data.num_classes && *data.num_classes != data.synthetic.classes) {
    checks.report("data.num_classes", concat("is ", *data.num_classes,
                                             ", but data.synthetic.classes, which counts, is ",
                                             data.synthetic.classes, "; remove one of them"));
  }
}

}  // namespace

void check_data(Checks& checks) {
  const Data& data = checks.config().data;
  for (const Split split : kSplits) check_split(checks, split);
  check_augment(checks);
  check_csv(checks);
  check_images(checks);
  const bool files = holds_arrays(data.format);
  if (checks.given("data") && files && data.path.empty() && !data.train.given()) {
    checks.report(
        "data",
        "does not name the training samples: give path, or train: {images: FILE, labels: FILE}");
  }
  if (checks.given("data") && data.format == DataFormat::kDigits && data.path.empty()) {
    checks.report("data", "format digits needs 'path', a folder to write the files into");
  }
  if (data.validation_split > 0 && data.validation.given()) {
    checks.report("data.validation_split", "cannot be given beside data.validation; choose one");
  }
  if (data.validation_split_order != ValidationSplitOrder::kStratified &&
      data.validation_split == 0) {
    checks.report("data.validation_split_order",
                  "needs data.validation_split, the fraction that is set aside, e.g. 0.2");
  }
  if (data.fold && !data.folds) {
    checks.report("data.fold", "needs data.folds, the number of parts, e.g. folds: 5");
  } else if (data.fold && *data.fold > *data.folds) {
    checks.report("data.fold", concat("is ", *data.fold, ", but data.folds is ", *data.folds));
  }
  check_classes(checks);
  if (data.repeats > 1 && data.train.augment.empty()) {
    checks.report("data.repeats",
                  "gives versions of a sample that differ by data.train.augment, which is empty; "
                  "list random changes there, or remove it");
  }
  if (data.sampling == Sampling::kBalanced && !data.shuffle) {
    checks.report("data.sampling",
                  "balanced draws the order of the samples; remove shuffle: false");
  }
  const Normalize normalize = data.normalize.value_or(Normalize{});
  const std::size_t means = normalize.mean.size(), deviations = normalize.std.size();
  if (means > 1 && deviations > 1 && means != deviations) {
    checks.report("data.normalize.std",
                  concat("has ", deviations, " entries, but mean has ", means));
  }
}

}  // namespace trainer::config
