#include "commands/new/starter.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "commands/new/backbone_choice.h"
#include "config/hints.h"
#include "config/pretrained.h"
#include "config/rule.h"
#include "config/weight_names.h"
#include "data/check.h"
#include "data/class_names.h"
#include "data/image_size.h"
#include "data/open.h"
#include "data/open_images.h"
#include "data/samples/splits.h"
#include "data/split_folders.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLookedAt = 64;     // images whose size is read
constexpr double kValidationShare = 0.2;  // where there is no validation split
// The largest class has more than so many times the images of the smallest: weights are balanced.
constexpr std::int64_t kMaxImbalance = 2;
constexpr const char* kNoWeights = "# No weights of a backbone were found";

ImageSource::SplitImages count_images(const Path& path, const std::vector<std::string>& classes) {
  ImageSource::SplitImages split;
  split.path = path;
  if (path.empty()) return split;
  const std::vector<std::string> with_images = data::find_class_folders(path);
  const std::map<std::string, std::int32_t> labels = data::map_class_names(classes);
  split.counts.resize(classes.size());
  for (const std::string& folder : with_images) {
    const auto found = labels.find(folder);
    if (found == labels.end()) continue;
    split.counts[found->second] +=
        static_cast<std::int64_t>(data::image_files((path / folder).string()).size());
  }
  for (std::size_t label = 0; label < classes.size(); ++label) {
    if (split.counts[label] > 0 || data::is_folder(path / classes[label])) continue;
    throw DataError(
        path.string(), "has no folder ", classes[label],
        "; expected one for every class of the training split: ", data::list_classes(classes));
  }
  return split;
}

std::int64_t find_median(std::vector<std::int64_t> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Measures about kLookedAt images, spread evenly over the files of each class. `files`: by class.
void measure_images(ImageSource& images, const std::vector<std::vector<std::string>>& files) {
  std::vector<std::int64_t> heights, widths;
  std::string reason;  // why the first of them cannot be read
  images.is_grey = true;
  const std::size_t each = std::max<std::size_t>(1, kLookedAt / files.size());
  for (const std::vector<std::string>& of_class : files) {
    const std::size_t count = std::min(each, of_class.size());
    for (std::size_t i = 0; i < count; ++i) {
      try {
        const data::ImageSize size = data::image_size(of_class[i * of_class.size() / count]);
        heights.push_back(size.height);
        widths.push_back(size.width);
        images.is_grey = images.is_grey && size.channels == 1;
      } catch (const DataError& error) {  // `trainer data` names the files that cannot be read
        if (reason.empty()) reason = error.what();
      }
    }
  }
  if (heights.empty()) {
    throw DataError(images.train.path.string(), "none of the image files looked at can be read; ",
                    reason);
  }
  images.height = find_median(heights);
  images.width = find_median(widths);
}

// Returns the name of the folder, archive or list with '_' in place of what is not a letter, a
// digit, '-' or a character beyond ASCII.
std::string name_of(const ImageSource& images) {
  const Path path = fs::absolute(images.path / "x").lexically_normal().parent_path();
  const Path words = fs::is_regular_file(path) ? path.stem() : path.filename();
  const std::string text = words.string();
  const bool is_text = is_line_of_text(text);
  std::string name;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool keeps = byte < 0x80 ? std::isalnum(byte) != 0 || letter == '-' : is_text;
    name += keeps ? letter : '_';
  }
  return name.empty() ? "images" : name;
}

constexpr const char* kHeader =
    R"(# Written by `trainer new`: a start, of which every line may be changed.
# `trainer plan` shows what follows from it, `trainer data` looks at the images.
)";
constexpr const char* kOptimizer = R"(optimizer: {adam: {learning_rate: 1.0e-3}}
schedule: {cosine: {}}  # the learning rate falls to 0 over the whole training
)";
constexpr const char* kParallelAndRun = R"(parallel:
  device: "${DEVICE:-auto}"
  gpus: "${NUM_GPUS:-all}"  # on the CPU a number counts replicas
  lr_scaling: none  # what more replicas make of the learning rate: none, linear, sqrt
run:
  evaluate_every: 1 epoch
  best: validation/accuracy  # its checkpoint is kept too
)";

std::string described(const ImageSource& images) {
  std::vector<std::string> classes;
  for (std::size_t i = 0; i < images.classes.size() && i < 12; ++i) {
    classes.push_back(concat(images.classes[i], " ", grouped(images.train.counts[i])));
  }
  if (images.classes.size() > classes.size()) classes.push_back("...");
  std::string text = concat("# Found: ", grouped(images.train.size()), " training images of ",
                            images.classes.size(), " classes (", printable(join(classes)), ")");
  if (!images.validation.path.empty()) {
    text += concat(", ", grouped(images.validation.size()), " to validate");
  }
  if (!images.test.path.empty()) text += concat(", ", grouped(images.test.size()), " to test");
  text += concat(";\n# half of them are at least ", images.height, " x ", images.width, " pixels",
                 images.is_grey ? ", grey" : "", ".\n");
  for (const std::string& note : images.notes) text += "# " + printable(note) + ".\n";
  return text;
}

// Returns a power of two with some twenty steps per epoch.
std::int64_t batch_size(std::int64_t samples) {
  std::int64_t size = 8;
  while (size < 64 && size * 2 * 20 <= samples) size *= 2;
  return size;
}

std::string backbone_model(const ImageSource& images, const FoundWeights& weights, bool is_wanted) {
  const bool has_token =
      config::has_class_token(*parse_enum<config::Backbone::Name>(weights.backbone));
  return concat(
      "model:\n  input: [", weights.image_side, ", ", weights.image_side,
      ", 3]  # height, width, channels\n  backbone:\n    name: ", weights.backbone,
      is_wanted ? "" : "  # its weights were found; `trainer new --backbone NAME` takes another",
      "\n    weights: ",
      weights.name.empty() ? config::to_yaml(weights.file.string()) : weights.name,
      has_token ? "\n    pooling: token  # the class token" : "",
      "\n    # Frozen layers are computed once per image and their output is kept. To train the "
      "last\n"
      "    # ones too, which takes longer and may be more accurate: freeze: \"[:-20]\", with a\n"
      "    # learning rate of 1e-4.\n"
      "    freeze: all\n",
      has_token
          ? "  head:\n"
          : "    batch_norm: eval  # statistics of small batches would spoil those of the weights\n"
            "  head:\n    - global_average_pool\n",
      "    - dropout: 0.2\n    - dense: {units: ", images.classes.size(),
      "}  # one for each class\n  loss: softmax_cross_entropy\n");
}

// Returns the line of a convolution with batch norm. The momentum of 0.9 makes the statistics of
// evaluation follow in runs of a few hundred steps.
std::string conv_line(int filters) {
  return concat("    - conv: {filters: ", filters,
                ", kernel_size: 3, padding: same, use_bias: false, batch_norm: {momentum: 0.9}, "
                "activation: relu}\n");
}

std::string plain_model(const ImageSource& images, const FoundWeights& weights) {
  // At a side of 128 the four convolutions see a smaller part of the photo: flowers and cats and
  // dogs were classified less accurately than at 64, and training took four times as long.
  constexpr std::int64_t kMinSide = 32, kMaxSide = 64;
  std::int64_t side = kMinSide;
  while (side < kMaxSide && side * 2 <= std::min(images.height, images.width)) side *= 2;
  std::vector<std::string> searched;
  for (const Path& path : weights.searched) searched.push_back(path.string());
  return concat(
      kNoWeights, " in ", printable(join(searched)),
      ".\n# This small network learns from these images alone. For better results with few images "
      "run\n#   trainer weights mobilenet_v2\n# and `trainer new` again with "
      "--overwrite.\nmodel:\n  input: [",
      side, ", ", side, ", ", images.is_grey ? 1 : 3,
      "]  # height, width, channels: images are resized to this\n  layers:\n", conv_line(32),
      "    - max_pool: 2\n", conv_line(64), "    - max_pool: 2\n", conv_line(128),
      "    - max_pool: 2\n", conv_line(256),
      "    - global_average_pool\n    - dropout: 0.3\n    - dense: {units: ", images.classes.size(),
      "}  # one for each class\n  loss: softmax_cross_entropy\n");
}

// Returns the line of data.csv with the values that are not the defaults; "" for none.
std::string csv_line(const config::Csv& csv) {
  std::vector<std::string> keys;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) keys.push_back(concat(key, ": ", config::to_yaml(value)));
  };
  add("image_column", csv.image_column);
  add("label_column", csv.label_column);
  add("weight_column", csv.weight_column);
  add("separator", csv.separator);
  add("root", csv.root);
  add("ending", csv.ending);
  return keys.empty() ? "" : concat("  csv: {", join(keys), "}\n");
}

std::string data_section(const ImageSource& images, const FoundWeights& weights) {
  const bool has_backbone = !weights.backbone.empty();
  std::vector<std::string> classes;
  for (const std::string& name : images.classes) classes.push_back(config::to_yaml(name));
  std::string text = concat("data:\n  format: ",
                            images.is_list ? "csv  # a file and a class per line"
                                           : "image_folder  # one folder per class",
                            "\n  classes: [", join(classes),
                            "]\n  train: {path: ", config::to_yaml(images.train.path.string()),
                            has_backbone ? "" : ", augment: [random_flip_horizontal]", "}\n",
                            csv_line(images.csv));
  if (images.validation.path.empty()) {
    text += concat("  validation_split: ", kValidationShare,
                   "  # share of the training images set aside, by the seed\n");
  } else {
    text +=
        concat("  validation: {path: ", config::to_yaml(images.validation.path.string()), "}\n");
  }
  if (!images.test.path.empty()) {
    text += concat("  test: {path: ", config::to_yaml(images.test.path.string()), "}\n");
  }
  if (!images.group_by.empty()) {
    text += concat("  group_by: ", config::to_yaml(images.group_by),
                   "  # kept in one split: ", images.groups,
                   "\n  folds: 5  # parts of `trainer crossval` and of `trainer train --fold K`\n");
  }
  return text + "  on_error: skip  # a damaged file is left out and named; fail ends the run\n";
}

// Returns whether the classes differ so much in size that the loss must make up for it.
bool is_imbalanced(const ImageSource& images) {
  std::int64_t smallest = images.train.size(), largest = 0;
  for (const std::int64_t count : images.train.counts) {
    if (count > 0) smallest = std::min(smallest, count);
    largest = std::max(largest, count);
  }
  return largest > kMaxImbalance * smallest;
}

// Adds a note with the number of files that do not exist.
void note_missing_files(ImageSource& images, const std::vector<std::vector<std::string>>& files) {
  std::int64_t missing = 0;
  std::string example;
  for (const std::vector<std::string>& of_class : files) {
    for (const std::string& file : of_class) {
      if (path_exists(file)) continue;
      if (++missing == 1) example = file;
    }
  }
  if (missing == 0) return;
  images.notes.push_back(concat(missing, missing == 1 ? " file does" : " files do",
                                " not exist and will be left out, e.g. ", example));
}

ImageSource look_at_list(const Path& list, const config::Csv& csv) {
  ImageSource images;
  images.path = list;
  images.is_list = true;
  images.csv = csv;
  config::Data config;
  config.format = config::DataFormat::kCsv;
  config.train.path = list;
  config.csv = csv;
  config.on_error = config::OnError::kReplace;  // files may be missing
  config.resize = {1, 1};                       // no image is read
  const data::Datasets opened = data::open_datasets(config, 0, Split::kTrain);
  images.classes = opened.classes;
  if (images.classes.size() < 2) {
    throw DataError(list.string(), "has the class ", join(images.classes),
                    " alone; expected images of at least two classes");
  }
  images.train.path = list;
  images.train.counts = data::class_counts(*opened.train, opened.num_classes);
  std::vector<std::vector<std::string>> files(images.classes.size());
  for (std::int64_t i = 0; i < opened.train->size(); ++i) {
    files[opened.train->label_at(i)].push_back(opened.train->describe(i));
  }
  note_missing_files(images, files);
  measure_images(images, files);
  return images;
}

// Throws DataError if a folder, or one in it, holds images beside a list metadata.csv, as those of
// Hugging Face's imagefolder.
void reject_metadata(const Path& folder) {
  std::error_code error;
  std::vector<Path> lists{folder / "metadata.csv"};
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    lists.push_back(it->path() / "metadata.csv");
  }
  std::sort(lists.begin() + 1, lists.end());
  for (const Path& list : lists) {
    if (!fs::is_regular_file(list, error)) continue;
    throw DataError(folder.string(),
                    "has no folder per class, but a list of its images; give the list: "
                    "`trainer train ",
                    printable(shell_word(list.string())), "`");
  }
}

ImageSource look_at_folder(const Path& source) {
  ImageSource images;
  images.path = source;
  const Path folder = data::find_data_root(source);
  data::SplitFolders splits = data::find_split_folders(folder);
  const Path train = splits.paths[Split::kTrain];
  images.notes = std::move(splits.notes);
  images.classes = data::find_class_folders(train.empty() ? folder : train);
  if (images.classes.size() < 2) {
    reject_metadata(source);
    throw DataError((train.empty() ? folder : train).string(), "has ", images.classes.size(),
                    " folders with images; expected one for each of at least two classes, "
                    "or train, validation and test with these");
  }
  for (std::string& line : data::describe_similar_names(images.classes)) {
    images.notes.push_back(std::move(line));
  }
  images.train = count_images(train.empty() ? folder : train, images.classes);
  images.validation = count_images(splits.paths[Split::kValidation], images.classes);
  images.test = count_images(splits.paths[Split::kTest], images.classes);
  std::vector<std::vector<std::string>> files;
  for (const std::string& name : images.classes) {
    files.push_back(data::image_files((images.train.path / name).string()));
  }
  measure_images(images, files);
  return images;
}

// Returns the folder of weights beside a folder or file of the file system; for a folder in an
// archive, beside the archive.
Path folder_beside(const Path& data) {
  Path folder = (data / "..").lexically_normal();
  while (!folder.empty() && !fs::is_directory(folder)) folder = folder.parent_path();
  return (folder / "weights").lexically_normal();
}

// Sets the name and the file of published weights of a backbone; returns false if none has a file.
bool find_published_weights(config::Backbone::Name backbone, const config::Environment& environment,
                            FoundWeights& weights) {
  for (const config::WeightRow& row : config::weight_table()) {
    if (row.backbone != backbone) continue;
    const std::string file =
        config::find_named_file(*config::parse_weight_name(row.name), environment);
    if (file.empty()) continue;
    weights.name = row.name;
    weights.file = file;
    // DINOv2's weights are for 518 pixels, which take six times the operations of 224.
    if (row.side > 0) weights.image_side = std::min(row.side, weights.image_side);
    return true;
  }
  return false;
}

FoundWeights find_wanted_weights(const Path& beside, const config::Environment& environment,
                                 config::Backbone::Name wanted) {
  config::Config config;
  config::Backbone& backbone = config.model.backbone.emplace();
  backbone.name = wanted;
  backbone.weights = config::kImagenet;
  config::find_imagenet_weights(config, environment);
  FoundWeights weights;
  weights.backbone = spell(wanted);
  weights.image_side = config::default_image_side(wanted);
  weights.file = backbone.weights;
  if (backbone.weights != config::kImagenet) return weights;
  weights.file = beside / config::imagenet_weight_file(backbone);
  if (path_exists(weights.file)) return weights;
  throw DataError(concat("--backbone ", weights.backbone), Controls::kLines,
                  config::missing_imagenet_weights(backbone, environment, {beside.string()}));
}

std::string train_section(const ImageSource& images) {
  return concat(
      "train:\n  epochs: 30\n  batch_size: \"${BATCH_SIZE:-", batch_size(images.train.size()),
      "}\"  # images per step and replica; `trainer find batch-size`\n",
      is_imbalanced(images)
          ? "  class_weight: balanced  # an image of a rare class counts more in the loss\n"
          : "");
}

}  // namespace

std::int64_t ImageSource::SplitImages::size() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

ImageSource look_at(const Path& source, const config::Csv& csv) {
  if (data::is_folder(source)) return look_at_folder(source);
  if (fs::is_regular_file(source)) return look_at_list(source, csv);
  const char* const expected =
      "a folder with a folder of images per class, a zip archive of these, or a list of images and "
      "classes (CSV)";
  throw DataError(source.string(),
                  fs::exists(source)
                      ? concat("is not a folder; expected ", expected)
                      : config::describe_missing("file or folder", source.string(), expected));
}

void set_groups(ImageSource& images, const std::string& group_by) {
  config::Data data;
  data.format = images.is_list ? config::DataFormat::kCsv : config::DataFormat::kImageFolder;
  data.train.path = images.train.path.string();
  data.csv = images.csv;
  data.classes = images.classes;
  data.group_by = group_by;
  images.groups = data::describe_training_groups(data);
  images.group_by = group_by;
}

FoundWeights find_weights(const Path& data, const config::Environment& environment, bool on_cpu,
                          std::optional<config::Backbone::Name> wanted) {
  if (wanted) return find_wanted_weights(folder_beside(data), environment, *wanted);
  FoundWeights weights;
  for (const std::string& folder : config::weight_folders(environment)) {
    weights.searched.emplace_back(folder);
  }
  const Path beside = folder_beside(data);
  if (std::ranges::find(weights.searched, beside) == weights.searched.end()) {
    weights.searched.push_back(beside);
  }
  for (const config::Backbone::Name name : list_backbones_by_accuracy(on_cpu)) {
    config::Backbone backbone;
    backbone.name = name;
    const std::string file = config::imagenet_weight_file(backbone);
    weights.backbone = spell(name);
    weights.image_side = config::default_image_side(name);
    for (const Path& folder : weights.searched) {
      if (file.empty() || !path_exists(folder / file)) continue;
      weights.file = folder / file;
      return weights;
    }
    if (find_published_weights(name, environment, weights)) return weights;
  }
  weights.backbone.clear();
  return weights;
}

bool is_without_weights(const std::string& text) {
  return text.find(concat('\n', kNoWeights)) != std::string::npos;
}

std::string make_config(const ImageSource& images, const FoundWeights& weights,
                        std::optional<config::Backbone::Name> wanted) {
  const std::string name =
      concat("name: ", config::to_yaml(name_of(images)), "  # the run's folder is runs/<name>\n",
             "seed: 42  # of everything random: the same seed, the same run\n");
  const std::string model = weights.backbone.empty()
                                ? plain_model(images, weights)
                                : backbone_model(images, weights, wanted.has_value());
  return concat(kHeader, described(images), name, model, data_section(images, weights), kOptimizer,
                train_section(images), kParallelAndRun);
}

}  // namespace trainer::commands
