#include "data/arrays/open_arrays.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/error.h"
#include "base/text.h"
#include "data/arrays/cifar.h"
#include "data/arrays/digits.h"
#include "data/arrays/idx.h"
#include "data/arrays/memory_dataset.h"
#include "data/arrays/npz.h"
#include "data/arrays/split_arrays.h"
#include "data/arrays/synthetic.h"

namespace trainer::data {
namespace {

using Opened = std::unique_ptr<MemoryDataset>;

constexpr std::size_t kMaxArrayNames = 12;  // names of arrays in a message

[[noreturn]] void throw_missing(const Path& path, Split split) {
  throw DataError(path.string(), "no such file, needed for the ", to_string(split),
                  " split. Fetch the data set (datasets/mnist.sh, datasets/fashion_mnist.sh), or "
                  "name the folder that holds it with data.path or the variable that the config "
                  "uses (MNIST_DIR, FASHION_MNIST_DIR)");
}

// Returns the starts of the names of a split's files, the usual one first.
std::vector<std::string> idx_prefixes(Split split) {
  switch (split) {
    case Split::kTrain:
      return {"train"};
    case Split::kValidation:
      return {"validation", "valid", "val", "dev"};
    case Split::kTest:
      return {"t10k", "test"};
  }
  return {};
}

struct IdxFiles {
  Path images, labels;
};

// Returns the files of a split in a folder; empty paths for files that are not there.
IdxFiles find_idx_files(const Path& folder, Split split) {
  IdxFiles files;
  for (const std::string& prefix : idx_prefixes(split)) {
    if (files.images.empty()) files.images = find_idx(folder, prefix + "-images", "idx3-ubyte");
    if (files.labels.empty()) files.labels = find_idx(folder, prefix + "-labels", "idx1-ubyte");
  }
  return files;
}

Opened open_idx_split(const config::Data& config, Split split) {
  const config::SplitFiles& files = config.files(split);
  if (!files.images.empty() || !files.labels.empty()) {
    if (files.images.empty() || files.labels.empty()) {
      throw ConfigError(files.loc, "data.", to_string(split), ": give both `images` and `labels`");
    }
    for (const std::string& path : {files.images, files.labels}) {
      if (!std::filesystem::exists(path)) throw_missing(path, split);
    }
    return std::make_unique<MemoryDataset>(read_idx(files.images), read_idx(files.labels));
  }
  const Path folder = files.path.empty() ? config.path : files.path;
  if (folder.empty()) {
    if (split != Split::kTrain) return nullptr;
    throw ConfigError(config.loc, "data: give `path`, or `images` and `labels` of `train`");
  }
  const auto [images, labels] = find_idx_files(folder, split);
  const std::string prefix = idx_prefixes(split).front();
  const bool is_needed = split == Split::kTrain || files.given();
  if (images.empty() && labels.empty() && !is_needed) return nullptr;
  if (images.empty()) throw_missing(folder / (prefix + "-images-idx3-ubyte[.gz]"), split);
  if (labels.empty()) throw_missing(folder / (prefix + "-labels-idx1-ubyte[.gz]"), split);
  return std::make_unique<MemoryDataset>(read_idx(images), read_idx(labels));
}

// Files that do not exist are drawn in memory.
Opened open_digits_split(const config::Data& config, Split split) {
  if (split == Split::kValidation || has_digits(config.path, split)) {
    return open_idx_split(config, split);
  }
  DrawnDigits drawn = draw_digits(split);
  return std::make_unique<MemoryDataset>(std::move(drawn.images), std::move(drawn.labels));
}

// Returns the arrays of a split of an .npz file that holds `held`: those that the config names, or
// those with names of the split.
SplitArrays choose_arrays(const config::Data& config, Split split, const std::string& path,
                          const std::vector<std::string>& held) {
  const config::SplitFiles& files = config.files(split);
  SplitArrays arrays{files.images, files.labels};
  if (!arrays.images.empty() && !arrays.labels.empty()) return arrays;
  const SplitArrays found = find_split_arrays(path, held, split, !files.path.empty());
  if (arrays.images.empty()) arrays.images = found.images;
  if (arrays.labels.empty()) arrays.labels = found.labels;
  return arrays;
}

Opened open_npz_split(const config::Data& config, Split split) {
  const config::SplitFiles& files = config.files(split);
  const std::string path = files.path.empty() ? config.path : files.path;
  if (path.empty()) {
    if (files.images.empty() && files.labels.empty() && split != Split::kTrain) return nullptr;
    if (files.images.empty() || files.labels.empty()) {
      throw ConfigError(files.given() ? files.loc : config.loc, "data.", to_string(split),
                        ": give `path` of an .npz file, or `images` and `labels` as .npy files");
    }
    for (const std::string& file : {files.images, files.labels}) {
      if (!std::filesystem::exists(file)) throw_missing(file, split);
    }
    return std::make_unique<MemoryDataset>(read_npy(files.images), read_npy(files.labels));
  }
  if (!std::filesystem::exists(path)) throw_missing(path, split);
  const std::vector<std::string> held = npz_names(path);
  const auto [images, labels] = choose_arrays(config, split, path, held);
  const bool is_needed = split == Split::kTrain || files.given();
  if (images.empty() && labels.empty() && !is_needed) return nullptr;
  if (images.empty() || labels.empty()) {
    const std::string name = to_string(split);
    throw DataError(path, "does not contain the arrays x_", name, " and y_", name, " of the ", name,
                    " split, but ", join_first(held, kMaxArrayNames),
                    ". Name the arrays with data.", name, ".images and data.", name, ".labels");
  }
  return std::make_unique<MemoryDataset>(read_npz(path, images), read_npz(path, labels));
}

// Returns a line on the arrays of the file data.path that no split uses; "" if there are none.
std::string describe_unused_arrays(const config::Data& config) {
  std::vector<std::string> unused = npz_names(config.path);
  const std::vector<std::string> held = unused;
  for (const Split split : kSplits) {
    const bool is_replaced =
        split == Split::kValidation && config::divides_training_samples(config);
    if (is_replaced || !config.files(split).path.empty()) continue;
    const SplitArrays used = choose_arrays(config, split, config.path, held);
    std::erase(unused, used.images);
    std::erase(unused, used.labels);
  }
  if (unused.empty()) return "";
  return concat(printable(config.path),
                ": not used: ", printable(join_first(unused, kMaxArrayNames)),
                "; to use an array, name it with data.SPLIT.images or data.SPLIT.labels");
}

// Returns the files of a split with the names of CIFAR: data_batch_1.bin ... and test_batch.bin, or
// train.bin and test.bin.
std::vector<Path> cifar_files(const Path& folder, Split split) {
  std::vector<Path> files;
  for (int i = 1; split == Split::kTrain && i <= 5; ++i) {
    const Path path = folder / concat("data_batch_", i, ".bin");
    if (std::filesystem::exists(path)) files.push_back(path);
  }
  if (!files.empty()) return files;
  for (const char* name : {split == Split::kTest ? "test_batch.bin" : "train.bin", "test.bin"}) {
    if (split == Split::kTrain && std::string(name) == "test.bin") continue;
    if (std::filesystem::exists(folder / name)) return {folder / name};
  }
  return {};
}

Opened open_cifar_split(const config::Data& config, Split split) {
  const config::SplitFiles& named = config.files(split);
  if (split == Split::kValidation && !named.given()) return nullptr;
  const Path path = named.path.empty() ? config.path : named.path;
  if (path.empty()) {
    if (split != Split::kTrain) return nullptr;
    throw ConfigError(config.loc, "data.path: name the folder with CIFAR's .bin files");
  }
  std::vector<Path> files{path};
  if (std::filesystem::is_directory(path)) files = cifar_files(path, split);
  if (files.empty() && split == Split::kTest && !named.given()) return nullptr;
  if (files.empty() || !std::filesystem::exists(files[0])) {
    throw DataError(path.string(), "does not contain ",
                    split == Split::kTest ? "test_batch.bin" : "data_batch_1.bin",
                    ", needed for the ", to_string(split),
                    " split; datasets/cifar10.sh fetches CIFAR-10");
  }
  Cifar cifar = read_cifar(files);
  return std::make_unique<MemoryDataset>(std::move(cifar.images), std::move(cifar.labels));
}

// Returns the lines of the file of class names beside the images of CIFAR; empty without such a
// file.
std::vector<std::string> cifar_classes(const Path& folder) {
  std::vector<std::string> names;
  for (const char* file : {"batches.meta.txt", "fine_label_names.txt"}) {
    std::ifstream in(folder / file);
    for (std::string line; std::getline(in, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty() && is_line_of_text(line)) names.push_back(line);
    }
    if (!names.empty()) break;
  }
  return names;
}

using OpenSplit = Opened (*)(const config::Data& config, Split split);

struct Parts {
  Opened train, validation, test;
};

// Reads splits in parallel, as decompressing them takes most of the start-up time.
Parts open_parts(const config::Data& config, const std::set<Split>& wanted, OpenSplit open_split) {
  const auto start = [&](Split split) {
    const bool is_wanted = wanted.contains(split);
    return std::async(is_wanted ? std::launch::async : std::launch::deferred,
                      [=, &config] { return is_wanted ? open_split(config, split) : Opened{}; });
  };
  auto test_part = start(Split::kTest);
  auto validation_part = start(Split::kValidation);
  Parts parts;
  if (wanted.contains(Split::kTrain)) parts.train = open_split(config, Split::kTrain);
  parts.validation = validation_part.get();
  parts.test = test_part.get();
  return parts;
}

// Makes columns of 0 and 1 labels of their own, if all parts have them.
void take_label_columns(const Parts& parts) {
  const std::array<MemoryDataset*, 3> all{parts.train.get(), parts.validation.get(),
                                          parts.test.get()};
  const auto has_columns = [](const MemoryDataset* part) {
    return part == nullptr || part->has_columns_of_labels();
  };
  const bool have_columns = std::ranges::all_of(all, has_columns);
  for (MemoryDataset* const part : all) {
    if (part == nullptr) continue;
    part->check_shares();
    if (have_columns) part->take_columns_as_labels();
  }
}

std::int64_t count_classes(const config::Data& config, const MemoryDataset& first) {
  const auto named = std::ssize(config.classes);
  if (config.num_classes && named > 0 && *config.num_classes != named) {
    throw ConfigError(config.loc, "data: num_classes is ", *config.num_classes, ", but ", named,
                      " classes are named");
  }
  const std::int64_t given_count = config.num_classes.value_or(named);
  const std::int64_t width = first.spec().label_width;
  if (given_count > 0 && width > 1 && given_count != width) {
    throw ConfigError(config.loc, "data: ", given_count, " classes are given, but a label ",
                      "in the files has ", width, " numbers");
  }
  if (given_count > 0) return given_count;
  return first.spec().label_is_index() ? first.max_label() + 1 : width;
}

void check_alike(const Dataset& one, const Dataset& other, const std::string& name,
                 const std::string& path) {
  const DatasetSpec &first = one.spec(), &second = other.spec();
  if (same_samples(first, second)) return;
  throw DataError(path, "the images of the ", name, " split are ", to_string(second.image_shape),
                  " ", to_string(second.image_type), " with ", second.label_width,
                  " numbers per label, but those of the first split are ",
                  to_string(first.image_shape), " ", to_string(first.image_type), " with ",
                  first.label_width);
}

// Throws ConfigError for images of 1 to 4 rows and more columns and channels, which are likely
// [channels, height, width], unless model.input states this shape.
void check_channel_order(const config::Data& config, const Shape& image) {
  constexpr std::int64_t kMaxChannels = 4;
  const bool is_likely =
      image[0] <= kMaxChannels && image[1] > kMaxChannels && image[2] > kMaxChannels;
  if (!is_likely || config.stated_shape == image.dims()) return;
  throw ConfigError(
      config.loc, "data: the images of ",
      config.path.empty() ? "the arrays" : printable(config.path), " are ", to_string(image),
      ", which looks like channels first, but the order is ",
      "[height, width, channels]: save images.transpose(0, 2, 3, 1) (NumPy). If the images are ",
      counted(image[0], "row"), " of ", image[1], " pixels with ", image[2],
      " channels, state it with model.input: [", image[0], ", ", image[1], ", ", image[2], "]");
}

void open_arrays(const config::Data& config, const std::set<Split>& wanted, OpenSplit open_split,
                 Datasets& result) {
  Parts parts = open_parts(config, wanted, open_split);
  const MemoryDataset* first = parts.train        ? parts.train.get()
                               : parts.validation ? parts.validation.get()
                                                  : parts.test.get();
  if (first == nullptr) return;
  check_channel_order(config, first->spec().image_shape);
  if (config.columns_are_labels) take_label_columns(parts);
  result.num_classes = count_classes(config, *first);
  const auto check = [&](const Opened& part, Split split) {
    if (part == nullptr) return;
    check_alike(*first, *part, to_string(split), config.path.empty() ? "data" : config.path);
    part->check_labels(result.num_classes);
    part->check_finite(concat(to_string(split), " split"));
  };
  check(parts.train, Split::kTrain);
  check(parts.validation, Split::kValidation);
  check(parts.test, Split::kTest);
  result.train = std::move(parts.train);
  result.validation = std::move(parts.validation);
  result.test = std::move(parts.test);
}

}  // namespace

void open_idx(const config::Data& config, const std::set<Split>& wanted, Datasets& result) {
  open_arrays(config, wanted, open_idx_split, result);
}

void open_npz(const config::Data& config, const std::set<Split>& wanted, Datasets& result) {
  open_arrays(config, wanted, open_npz_split, result);
  if (config.path.empty() || !wanted.contains(Split::kTrain)) return;
  if (std::string unused = describe_unused_arrays(config); !unused.empty()) {
    result.notices.push_back(Notice::note(std::move(unused)));
  }
}

bool has_validation_arrays(const config::Data& config) {
  if (config.path.empty() || !std::filesystem::exists(config.path)) return false;
  constexpr Split kSplit = Split::kValidation;
  if (config.format == config::DataFormat::kNpz) {
    return !choose_arrays(config, kSplit, config.path, npz_names(config.path)).images.empty();
  }
  return config.format == config::DataFormat::kIdx &&
         !find_idx_files(config.path, kSplit).images.empty();
}

void open_cifar(const config::Data& config, const std::set<Split>& wanted, Datasets& result) {
  open_arrays(config, wanted, open_cifar_split, result);
  if (!config.classes.empty()) return;
  const std::vector<std::string> names = cifar_classes(config.path);
  if (std::ssize(names) >= result.num_classes) {
    result.num_classes = std::ssize(names);
    result.classes = names;
  }
}

void open_digits(const config::Data& config, const std::set<Split>& wanted, Datasets& result) {
  if (config.path.empty()) {
    throw ConfigError(config.loc, "data.path: name the folder to write the digits to");
  }
  if (config.folders == config::FolderAccess::kReadWrite) generate_digits(config.path);
  open_arrays(config, wanted, open_digits_split, result);
}

void open_synthetic(const config::Data& config, std::uint64_t seed, const std::set<Split>& wanted,
                    Datasets& result) {
  const config::Synthetic& synthetic = config.synthetic;
  result.num_classes = std::max<std::int64_t>(synthetic.classes, std::ssize(config.classes));
  if (wanted.contains(Split::kTrain)) result.train = make_synthetic(synthetic, seed, false);
  if (wanted.contains(Split::kTest) && synthetic.test_samples > 0) {
    result.test = make_synthetic(synthetic, seed, true);
  }
}

}  // namespace trainer::data
