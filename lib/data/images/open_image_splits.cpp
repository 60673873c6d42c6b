#include "data/images/open_image_splits.h"

#include "base/error.h"
#include "data/image_split.h"
#include "data/images/conflicts.h"
#include "data/images/image_dataset.h"
#include "data/images/listing/group_pattern.h"
#include "data/images/listing/image_list.h"
#include "data/images/listing/relabel.h"
#include "data/images/value_range.h"

namespace trainer::data {
namespace {

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

}  // namespace

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

}  // namespace trainer::data
