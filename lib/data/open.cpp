// From the config's `data` section to open splits.
#include <algorithm>
#include <filesystem>
#include <future>

#include "base/error.h"
#include "base/text.h"
#include "data/arrays/array.h"
#include "data/images/image.h"
#include "data/splits.h"

namespace trainer::data {
namespace {

enum class Role { kTrain, kValidation, kTest };

const char* name_of(Role role) {
  return role == Role::kTrain ? "train" : role == Role::kTest ? "test" : "validation";
}

const config::Split& split_of(const config::Data& config, Role role) {
  return role == Role::kTrain  ? config.train
         : role == Role::kTest ? config.test
                               : config.validation;
}

bool given(const config::Split& split) {
  return !split.path.empty() || !split.images.empty() || !split.labels.empty() ||
         !split.glob.empty();
}

using Opened = std::unique_ptr<MemoryDataset>;

// "train-images-idx3-ubyte" in any of the spellings in which the files go around.
Path find_idx(const Path& folder, const std::string& stem, const std::string& kind) {
  for (const char* dot : {"-", "."}) {
    for (const char* end : {"", ".gz"}) {
      Path path = folder / (stem + dot + kind + end);
      if (std::filesystem::exists(path)) return path;
    }
  }
  return {};
}

[[noreturn]] void throw_missing(const Path& path, Role role) {
  throw DataError(path.string(),
                  concat("no such file, needed for the ", name_of(role),
                         " split. Fetch the data set (datasets/mnist.sh, "
                         "datasets/fashion_mnist.sh), or name the folder that holds it with "
                         "data.path or the variable that the config uses (MNIST_DIR, "
                         "FASHION_MNIST_DIR)"));
}

Opened open_idx(const config::Data& config, Role role) {
  const config::Split& split = split_of(config, role);
  if (!split.images.empty() || !split.labels.empty()) {
    if (split.images.empty() || split.labels.empty()) {
      throw ConfigError(split.loc,
                        concat("data.", name_of(role), ": give both `images` and `labels`"));
    }
    for (const std::string& path : {split.images, split.labels}) {
      if (!std::filesystem::exists(path)) throw_missing(path, role);
    }
    return std::make_unique<MemoryDataset>(read_idx(split.images), read_idx(split.labels));
  }
  // A validation set has no MNIST name of its own, so that it is only looked for when asked for.
  if (role == Role::kValidation && split.path.empty()) return nullptr;
  const Path folder = split.path.empty() ? config.path : split.path;
  if (folder.empty()) {
    if (role != Role::kTrain) return nullptr;
    throw ConfigError(config.loc, "data: give `path`, or `images` and `labels` of `train`");
  }
  const std::string prefix = role == Role::kTest ? "t10k" : name_of(role);
  const Path images = find_idx(folder, prefix + "-images", "idx3-ubyte");
  const Path labels = find_idx(folder, prefix + "-labels", "idx1-ubyte");
  if (images.empty() && labels.empty() && role == Role::kTest && !given(split)) return nullptr;
  if (images.empty()) throw_missing(folder / (prefix + "-images-idx3-ubyte[.gz]"), role);
  if (labels.empty()) throw_missing(folder / (prefix + "-labels-idx1-ubyte[.gz]"), role);
  return std::make_unique<MemoryDataset>(read_idx(images), read_idx(labels));
}

// The first of `names` that the file holds.
std::string pick(const std::vector<std::string>& held, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(held.begin(), held.end(), name) != held.end()) return name;
  }
  return "";
}

// Arrays of one .npz are named as keras.datasets names them when the file holds all splits.
Opened open_npz(const config::Data& config, Role role) {
  const config::Split& split = split_of(config, role);
  const std::string path = split.path.empty() ? config.path : split.path;
  if (path.empty()) {
    if (split.images.empty() && split.labels.empty() && role != Role::kTrain) return nullptr;
    if (split.images.empty() || split.labels.empty()) {
      throw ConfigError(given(split) ? split.loc : config.loc,
                        concat("data.", name_of(role),
                               ": give `path` of an .npz file, or "
                               "`images` and `labels` as .npy files"));
    }
    for (const std::string& file : {split.images, split.labels}) {
      if (!std::filesystem::exists(file)) throw_missing(file, role);
    }
    return std::make_unique<MemoryDataset>(read_npy(split.images), read_npy(split.labels));
  }
  if (role == Role::kValidation && !given(split)) return nullptr;
  if (!std::filesystem::exists(path)) throw_missing(path, role);
  const std::vector<std::string> held = npz_names(path);
  const std::string suffix = name_of(role);
  std::vector<std::string> image_names{"x_" + suffix, suffix + "_images"};
  std::vector<std::string> label_names{"y_" + suffix, suffix + "_labels"};
  if (!split.path.empty()) {
    image_names.insert(image_names.end(), {"images", "x"});
    label_names.insert(label_names.end(), {"labels", "y"});
  }
  const std::string images = split.images.empty() ? pick(held, image_names) : split.images;
  const std::string labels = split.labels.empty() ? pick(held, label_names) : split.labels;
  if (images.empty() && labels.empty() && role == Role::kTest && !given(split)) return nullptr;
  if (images.empty() || labels.empty()) {
    throw DataError(path, concat("no arrays ", image_names[0], " and ", label_names[0], " for the ",
                                 suffix, " split; it holds ", join(held), ". Name them with data.",
                                 suffix, ".images and data.", suffix, ".labels"));
  }
  return std::make_unique<MemoryDataset>(read_npz(path, images), read_npz(path, labels));
}

Opened open_split(const config::Data& config, Role role) {
  return config.format == config::DataFormat::kNpz ? open_npz(config, role)
                                                   : open_idx(config, role);
}

// A path of the config at which there is nothing. Where the format has no need of a file, a split
// is merely absent then, which must not be said of data that was moved.
void check_path(const std::string& path, const std::string& key, bool image_files) {
  if (path.empty() || std::filesystem::exists(path)) return;
  throw DataError(path, concat("there is no such file or folder; it is named by data.", key,
                               ". Give its place with --set data.", key, "=NEW",
                               image_files ? ""
                                           : ", or with the variable that the config uses "
                                             "(MNIST_DIR, FASHION_MNIST_DIR), or fetch the data "
                                             "set (datasets/mnist.sh, datasets/fashion_mnist.sh)"));
}

void check_paths(const config::Data& config, const std::vector<Role>& roles) {
  const bool image_files = config::is_image_format(config.format);
  for (const Role role : roles) {
    const config::Split& split = split_of(config, role);
    if (!given(split)) check_path(config.path, "path", image_files);
    check_path(split.path, concat(name_of(role), ".path"), image_files);
  }
}

struct Parts {
  Opened train, validation, test;
};

// Splits are read side by side: decompressing them is most of the start-up time.
Parts open_parts(const config::Data& config, bool train, bool validation, bool test) {
  const auto start = [&](bool wanted, Role role) {
    return std::async(wanted ? std::launch::async : std::launch::deferred, [&config, wanted, role] {
      return wanted ? open_split(config, role) : Opened{};
    });
  };
  auto test_part = start(test, Role::kTest);
  auto validation_part = start(validation, Role::kValidation);
  Parts parts;
  if (train) parts.train = open_split(config, Role::kTrain);
  parts.validation = validation_part.get();
  parts.test = test_part.get();
  return parts;
}

std::int64_t count_classes(const config::Data& config, const Dataset& first,
                           std::int64_t max_label) {
  const auto named = static_cast<std::int64_t>(config.classes.size());
  if (config.num_classes && named > 0 && *config.num_classes != named) {
    throw ConfigError(config.loc, concat("data: num_classes is ", *config.num_classes, ", but ",
                                         named, " classes are named"));
  }
  const std::int64_t given_count = config.num_classes.value_or(named);
  const std::int64_t width = first.label_width();
  if (given_count > 0 && width > 1 && given_count != width) {
    throw ConfigError(config.loc, concat("data: ", given_count, " classes are given, but a label ",
                                         "in the files has ", width, " numbers"));
  }
  if (given_count > 0) return given_count;
  return first.label_is_index() ? max_label + 1 : width;
}

void check_alike(const Dataset& one, const Dataset& other, const char* name,
                 const std::string& path) {
  if (one.image_shape() == other.image_shape() && one.image_type() == other.image_type() &&
      one.label_is_index() == other.label_is_index() && one.label_width() == other.label_width()) {
    return;
  }
  throw DataError(
      path, concat("the ", name, " split holds ", to_string(other.image_shape()), " ",
                   to_string(other.image_type()), " images with ", other.label_width(),
                   " numbers a label, but the first split holds ", to_string(one.image_shape()),
                   " ", to_string(one.image_type()), " with ", one.label_width()));
}

struct Wanted {
  bool train, validation, test;
};

// The classes of all splits are those of the training split, which is listed for them even when it
// is not wanted itself.
std::vector<std::string> open_images(const config::Data& config, std::uint64_t seed,
                                     const Wanted& wanted, Datasets& result) {
  if (config.resize.size() != 2) {
    throw ConfigError(config.loc, "data.resize: give [height, width]; image files differ in size");
  }
  const std::vector<std::string> classes = class_names(config, image_split(config, "train"));
  const auto open = [&](bool want, const char* name) -> std::unique_ptr<Dataset> {
    if (!want) return nullptr;
    const config::Split split = image_split(config, name);
    if (!given(split)) return nullptr;
    const bool training = std::string(name) == "train";
    ImageList list = list_images(config, split, classes);
    if (config.on_error == config::OnError::kFail) check_files_exist(list);
    if (training && config.limit) draw_files(list, *config.limit, seed);
    return make_image_dataset(config, std::move(list), classes, seed, training);
  };
  result.train = open(wanted.train, "train");
  result.validation = open(wanted.validation, "validation");
  result.test = open(wanted.test, "test");
  return classes;
}

void describe(Datasets& result, const config::Data& config, std::int64_t num_classes) {
  const Dataset* first = result.train        ? result.train.get()
                         : result.validation ? result.validation.get()
                                             : result.test.get();
  result.image_shape = first->image_shape();
  result.image_type = first->image_type();
  result.label_is_index = first->label_is_index();
  result.num_classes = num_classes;
  if (result.classes.empty()) result.classes = config.classes;
  for (std::int64_t i = static_cast<std::int64_t>(result.classes.size()); i < num_classes; ++i) {
    result.classes.push_back(std::to_string(i));
  }
}

// Sets the first samples and the validation part of `train` apart, as the config says.
void divide_train(Datasets& result, const config::Data& config, std::uint64_t seed) {
  if (!result.train) return;
  if (config.limit) {
    if (*config.limit < 1) throw ConfigError(config.loc, "data.limit must be at least 1");
    result.train = take_first(std::move(result.train), *config.limit);
  }
  if (config.validation_split > 0 && !given(config.validation)) {
    SplitPair parts = split_off(std::move(result.train), config.validation_split, seed);
    result.train = std::move(parts.train);
    result.validation = std::move(parts.validation);
  }
}

}  // namespace

Datasets open_datasets(const config::Data& config, std::uint64_t seed,
                       std::optional<std::string> only) {
  if (only && *only != "train" && *only != "validation" && *only != "test") {
    throw ConfigError(
        {}, concat("no split is called '", *only, "'; expected train, validation or test"));
  }
  if (config.validation_split < 0 || config.validation_split >= 1) {
    throw ConfigError(config.loc, "data.validation_split must be in [0, 1)");
  }
  const auto wanted = [&](const char* name) { return !only || *only == name; };
  const bool from_train = config.validation_split > 0 && !given(config.validation);
  const bool need_train = wanted("train") || (wanted("validation") && from_train);
  const bool need_validation = wanted("validation") && !from_train;

  const bool on_disk = config.format != config::DataFormat::kSynthetic &&
                       config.format != config::DataFormat::kDigits;
  std::vector<Role> roles;
  if (on_disk && need_train) roles.push_back(Role::kTrain);
  if (on_disk && need_validation) roles.push_back(Role::kValidation);
  if (on_disk && wanted("test")) roles.push_back(Role::kTest);
  check_paths(config, roles);

  Datasets result;
  std::int64_t num_classes = config.synthetic.classes;
  if (config.format == config::DataFormat::kSynthetic) {
    num_classes =
        std::max<std::int64_t>(num_classes, static_cast<std::int64_t>(config.classes.size()));
    if (need_train) result.train = make_synthetic(config.synthetic, seed, false);
    if (wanted("test") && config.synthetic.test_samples > 0) {
      result.test = make_synthetic(config.synthetic, seed, true);
    }
  } else if (config::is_image_format(config.format)) {
    if (config.classes.empty() && !need_train) check_paths(config, {Role::kTrain});
    result.classes =
        open_images(config, seed, {need_train, need_validation, wanted("test")}, result);
    num_classes = static_cast<std::int64_t>(result.classes.size());
  } else {
    if (config.format == config::DataFormat::kDigits) {
      if (config.path.empty()) {
        throw ConfigError(config.loc, "data.path: name the folder to write the digits to");
      }
      generate_digits(config.path);
    }
    Parts parts = open_parts(config, need_train, need_validation, wanted("test"));
    const MemoryDataset* first = parts.train        ? parts.train.get()
                                 : parts.validation ? parts.validation.get()
                                                    : parts.test.get();
    if (first != nullptr) {
      num_classes = count_classes(config, *first, first->max_label());
      for (const Opened* part : {&parts.train, &parts.validation, &parts.test}) {
        if (*part == nullptr) continue;
        const char* name = part == &parts.train  ? "train"
                           : part == &parts.test ? "test"
                                                 : "validation";
        check_alike(*first, **part, name, config.path.empty() ? "data" : config.path);
        (*part)->check_labels(num_classes);
      }
    }
    result.train = std::move(parts.train);
    result.validation = std::move(parts.validation);
    result.test = std::move(parts.test);
  }
  divide_train(result, config, seed);
  if (!wanted("train")) result.train.reset();
  if (!wanted("validation")) result.validation.reset();
  if (result.validation && from_train) {
    result.validation = without_damaged(std::move(result.validation));
  }

  if (!result.train && !result.validation && !result.test) {
    throw MissingSplit(config.path.empty() ? "data" : config.path,
                       concat("there is no ", only.value_or("train"), " split: give data.",
                              only.value_or("train"), " in the config"));
  }
  describe(result, config, num_classes);
  return result;
}

}  // namespace trainer::data
