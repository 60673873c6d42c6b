#include "data/images/open_image_splits.h"

#include "base/error.h"
#include "data/images/image_dataset.h"
#include "data/images/listing/image_list.h"

namespace trainer::data {
namespace {

ImageSplit open_split(const config::Data& config, std::uint64_t seed, Role role, SplitImages source,
                      const std::vector<std::string>& classes) {
  ImageList list = std::move(source).list(classes);
  if (config.on_error == config::OnError::kFail) check_files_exist(list);
  const bool training = role == Role::kTrain;
  if (training && config.limit) draw_files(list, *config.limit, seed);
  return make_image_dataset(config, std::move(list), classes, seed, training);
}

}  // namespace

void open_image_splits(const config::Data& config, std::uint64_t seed, const Wanted& wanted,
                       Datasets& result) {
  if (config.resize.size() != 2) {
    throw ConfigError(config.loc, "data.resize: give [height, width]; image files differ in size");
  }
  SplitImages train(config, image_split(config, "train"));
  result.classes = train.class_names();
  result.num_classes = static_cast<std::int64_t>(result.classes.size());
  const auto open = [&](bool is_wanted, Role role, std::unique_ptr<Dataset>& dataset,
                        std::shared_ptr<DamagedFiles>& files) {
    if (!is_wanted) return;
    const config::Split files_of_role = image_split(config, name_of(role));
    if (!given(files_of_role)) return;
    SplitImages source =
        role == Role::kTrain ? std::move(train) : SplitImages(config, files_of_role);
    ImageSplit split = open_split(config, seed, role, std::move(source), result.classes);
    dataset = std::move(split.dataset);
    files = std::move(split.files);
  };
  open(wanted.train, Role::kTrain, result.train, result.train_files);
  open(wanted.validation, Role::kValidation, result.validation, result.validation_files);
  open(wanted.test, Role::kTest, result.test, result.test_files);
}

}  // namespace trainer::data
