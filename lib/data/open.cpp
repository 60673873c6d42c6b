#include "data/open.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "data/arrays/augment_arrays.h"
#include "data/arrays/open_arrays.h"
#include "data/image_split.h"
#include "data/images/conflicts.h"
#include "data/images/image_dataset.h"
#include "data/images/listing/group_pattern.h"
#include "data/images/listing/image_list.h"
#include "data/images/listing/relabel.h"
#include "data/images/listing/zip_folder.h"
#include "data/images/value_range.h"
#include "data/samples/groups.h"
#include "data/samples/splits.h"
#include "data/samples/training_division.h"

namespace trainer::data {

namespace {

// Returns the part of a message on the other place where a relative path of a config is searched;
// "" for a path that was searched in the current folder alone, such as one of --set.
std::string describe_other_place(const config::Data& config, const std::string& key) {
  const auto place = config.missing_beside_file.find(key);
  if (place == config.missing_beside_file.end()) return "";
  return concat("; nor is there ", printable(place->second));
}

// Throws if a path of the config does not exist. Formats that look for files by name would take the
// split for one that the config does not have.
void check_path(const config::Data& config, const std::string& path, const std::string& key) {
  if (path.empty() || std::filesystem::exists(path)) return;
  const bool image_files = config::is_image_format(config.format);
  if (image_files && find_zip_place(path)) return;
  throw DataError(path, "no such file or folder, named by data.", key,
                  describe_other_place(config, concat("data.", key)),
                  ". Give its place with --set data.", key, "=NEW",
                  image_files ? ""
                              : ", or with the variable that the config uses "
                                "(MNIST_DIR, FASHION_MNIST_DIR, CIFAR10_DIR), or fetch "
                                "the data set (datasets/mnist.sh, "
                                "datasets/fashion_mnist.sh, datasets/cifar10.sh)");
}

void check_split_paths(const config::Data& config, Split split) {
  const config::SplitFiles& files = config.files(split);
  if (!files.given()) check_path(config, config.path, "path");
  check_path(config, files.path, concat(to_string(split), ".path"));
}

// Returns whether the format reads files that the user provides.
bool reads_files(config::DataFormat format) {
  return format != config::DataFormat::kSynthetic && format != config::DataFormat::kDigits;
}

void check_paths(const config::Data& config, const std::set<Split>& wanted) {
  if (!reads_files(config.format)) return;
  for (const Split split : wanted) check_split_paths(config, split);
  const bool lists_train = config::is_image_format(config.format) && config.classes.empty();
  if (lists_train && !wanted.contains(Split::kTrain)) check_split_paths(config, Split::kTrain);
}

ImageSplit open_split(const config::Data& config, std::uint64_t seed, Split which, ImageList list,
                      const std::vector<std::string>& classes, const Progress& progress) {
  progress.advance();
  check_files_exist(list, config);
  progress.advance();
  const bool training = which == Split::kTrain;
  if (training) {
    check_groups(config, list);
    note_unused_folders(config, list);
    note_similar_names(classes, list);
  }
  resolve_conflicts(config, classes, list);
  if (training && config.on_conflict == config::OnConflict::kKeep) {
    list.note_left_aside(describe_conflicts(config, classes, list));
  }
  if (training && config.limit) draw_files(list, *config.limit, seed);
  return make_image_dataset(config, std::move(list), classes, seed, training, progress);
}

// Throws DataError if only one of two lists of images may have several labels per image.
void check_label_kind(const ImageList& list, bool has_several_labels) {
  if (static_cast<bool>(list.label_sets) == has_several_labels) return;
  throw DataError(list.source,
                  has_several_labels
                      ? "has one class per image, but the training list has several labels per "
                        "image; give both lists the same columns"
                      : "has several labels per image, but the training list has one class per "
                        "image; give both lists the same columns");
}

// Opens the wanted splits of image files that the config has into `result`, with the classes of the
// training split, which is listed for them even if it is not wanted.
void open_image_splits(const config::Data& config, std::uint64_t seed,
                       const std::set<Split>& wanted, const Progress& progress, Datasets& result) {
  if (config.resize.size() != 2) {
    throw ConfigError(config.loc, "data.resize: give [height, width]; image files differ in size");
  }
  SplitImages train(config, image_split(config, Split::kTrain), progress);
  result.classes = train.class_names();
  result.class_order = train.find_class_order();
  result.num_classes = std::ssize(result.classes);
  config::Data resolved = config;
  Relabel relabel(config);
  std::optional<ImageList> train_list;
  const bool has_train = image_split(config, Split::kTrain).given();
  const bool needs_range = config.range && config.range->is_automatic;
  if (has_train && (needs_range || wanted.contains(Split::kTrain))) {
    train_list = std::move(train).list(result.classes);
    relabel.apply(Split::kTrain, result.classes, *train_list);
    result.range_notice = resolve_range(*train_list, resolved);
  }
  std::optional<bool> has_several_labels;
  if (train_list) has_several_labels = static_cast<bool>(train_list->label_sets);
  result.range = resolved.range;
  const auto open = [&](Split which, std::unique_ptr<Dataset>& dataset,
                        std::shared_ptr<DamagedFiles>& files) {
    if (!wanted.contains(which)) return;
    const config::SplitFiles named = image_split(config, which);
    if (!named.given()) return;
    ImageList list;
    if (which == Split::kTrain) {
      list = std::move(*train_list);
    } else {
      list = SplitImages(config, named, progress).list(result.classes);
      relabel.apply(which, result.classes, list);
    }
    if (has_several_labels) check_label_kind(list, *has_several_labels);
    ImageSplit split = open_split(resolved, seed, which, std::move(list), result.classes, progress);
    dataset = std::move(split.dataset);
    files = std::move(split.files);
    if (which == Split::kTrain) result.scaled_decode_note = std::move(split.scaled_decode_note);
  };
  open(Split::kTrain, result.train, result.train_files);
  open(Split::kValidation, result.validation, result.validation_files);
  open(Split::kTest, result.test, result.test_files);
  // An evaluation of one split does not need the files of the others.
  if (wanted.contains(Split::kTrain)) relabel.check_rows(result.classes);
  if (!config.relabel.empty()) result.relabel_notice = Notice::note(relabel.describe());
}

void open_splits(const config::Data& config, std::uint64_t seed, const std::set<Split>& wanted,
                 const Progress& progress, Datasets& result) {
  switch (config.format) {
    case config::DataFormat::kIdx:
      return open_idx(config, wanted, result);
    case config::DataFormat::kNpz:
      return open_npz(config, wanted, result);
    case config::DataFormat::kCifar:
      return open_cifar(config, wanted, result);
    case config::DataFormat::kDigits:
      return open_digits(config, wanted, result);
    case config::DataFormat::kSynthetic:
      return open_synthetic(config, seed, wanted, result);
    case config::DataFormat::kImageFolder:
    case config::DataFormat::kCsv:
    case config::DataFormat::kTfRecord:
    case config::DataFormat::kWebDataset:
      return open_image_splits(config, seed, wanted, progress, result);
  }
}

// Adds the lines on groups that a user should see before training.
void note_groups(Datasets& result, const config::Data& config,
                 const std::vector<std::string>& groups, const std::string& shares) {
  if (groups.empty()) return;
  result.notices.push_back(Notice::note(concat("data.group_by: ", describe_groups(groups),
                                               shares.empty() ? "" : concat("; ", shares))));
  // A validation part of the training samples shares no group with the other part.
  for (const Split split : {Split::kValidation, Split::kTest}) {
    if (split == Split::kValidation && config::divides_training_samples(config)) continue;
    if (!result.dataset(split)) continue;
    const std::vector<std::string> others = list_groups(*result.dataset(split));
    std::set<std::string> shared(others.begin(), others.end());
    const std::set<std::string> trained(groups.begin(), groups.end());
    std::erase_if(shared,
                  [&](const std::string& name) { return name.empty() || !trained.contains(name); });
    if (shared.empty()) continue;
    result.notices.emplace_back(
        concat("data.group_by: ", shared.size(), shared.size() == 1 ? " group is" : " groups are",
               " in the train split and in the ", to_string(split), " split, e.g. ",
               printable(*shared.begin()), "; `trainer data` lists them with their files"));
  }
}

// Applies data.limit, and data.fold or data.validation_split, to the training split.
void divide_train(Datasets& result, const config::Data& config, std::uint64_t seed, bool evaluate) {
  if (!result.train) return;
  if (config.limit) {
    if (*config.limit < 1) throw ConfigError(config.loc, "data.limit must be at least 1");
    result.train = take_first(std::move(result.train), *config.limit);
  }
  std::vector<std::string> groups;
  if (!config.group_by.empty()) groups = list_groups(*result.train);
  if (!config::divides_training_samples(config)) return note_groups(result, config, groups, "");
  const Strata strata = list_strata(*result.train);
  Division division = divide_training_samples(config, strata, groups, seed);
  if (!groups.empty()) {
    note_groups(result, config, groups, describe_shares(config, strata, division, result.classes));
  }
  SplitPair parts =
      split_off(std::move(result.train), result.train_files.get(), std::move(division),
                describe_division_key(config, strata, groups, seed));
  result.train = std::move(parts.train);
  if (!evaluate) return;
  result.validation = std::move(parts.validation);
  result.validation_files = result.train_files;
  leave_out_unreadable(result.validation, result.validation_files,
                       DamagedFiles::Portion::kSetAside);
}

void describe(Datasets& result, const config::Data& config) {
  const Dataset* first = result.train        ? result.train.get()
                         : result.validation ? result.validation.get()
                                             : result.test.get();
  result.image_shape = first->spec().image_shape;
  result.image_type = first->spec().image_type;
  result.label_is_index = first->spec().label_is_index();
  if (result.classes.empty()) result.classes = config.classes;
  for (std::int64_t i = std::ssize(result.classes); i < result.num_classes; ++i) {
    result.classes.push_back(std::to_string(i));
  }
}

}  // namespace

bool has_validation(const config::Data& data) {
  if (config::divides_training_samples(data) || data.validation.given()) return true;
  return config::is_image_format(data.format) ? image_split(data, Split::kValidation).given()
                                              : has_validation_arrays(data);
}

Datasets open_datasets(const config::Data& config, std::uint64_t seed, std::optional<Split> only,
                       const Progress& progress) {
  const ActivityScope scope(progress, Activity::kOpenData);
  if (config.validation_split < 0 || config.validation_split >= 1) {
    throw ConfigError(config.loc, "data.validation_split must be in [0, 1)");
  }
  const std::set<Split> wanted =
      only ? std::set<Split>{*only} : std::set<Split>(kSplits.begin(), kSplits.end());
  const bool evaluates = wanted.contains(Split::kValidation);
  std::set<Split> needed = wanted;
  if (evaluates && config::divides_training_samples(config)) {
    needed.erase(Split::kValidation);
    needed.insert(Split::kTrain);
  }
  check_paths(config, needed);

  Datasets result;
  open_splits(config, seed, needed, progress, result);
  if (!config::is_image_format(config.format)) {
    result.train = augment_arrays(std::move(result.train), config, seed);
  }
  divide_train(result, config, seed, evaluates);
  if (!wanted.contains(Split::kTrain)) {
    result.train.reset();
    result.train_files.reset();
  }
  if (!result.train && !result.validation && !result.test) {
    const std::string name = to_string(only.value_or(Split::kTrain));
    throw MissingSplit(
        config.path.empty() ? "data" : config.path,
        concat("there is no ", name, " split; name one with --set data.", name, ".path=PLACE"));
  }
  describe(result, config);
  return result;
}

}  // namespace trainer::data
