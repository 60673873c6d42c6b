#include "train/open.h"

#include "base/error.h"
#include "data/mix.h"

namespace trainer::train {

data::Datasets open_training_data(const config::Config& config, std::optional<std::string> only) {
  data::Datasets data = data::open_datasets(config.data, config.seed, std::move(only));
  if (!data.train) throw ConfigError(config.data.loc, "data.train: is missing; training needs it");
  if (config::mixes_samples(config.data)) {
    const bool one_logit = config.model.loss == config::LossKind::kBinaryCrossEntropy;
    data.train = data::mix_samples(std::move(data.train), config.data.train.augment,
                                   one_logit ? 1 : data.num_classes, config.seed);
  }
  return data;
}

model::SampleSpec sample_spec(const data::Datasets& data) {
  return {data.image_shape, data.image_type, data.label_is_index, data.num_classes};
}

std::vector<std::unique_ptr<Hook>> make_hooks(const config::Config& config, std::ostream& out,
                                              const Output& output) {
  std::vector<std::unique_ptr<Hook>> hooks;
  if (output.json) {
    hooks.push_back(make_json_hook(out, config.run.log_every));
  } else {
    hooks.push_back(make_progress_hook(out, output.is_tty, output.quiet, config.run.log_every));
  }
  hooks.push_back(make_metrics_files_hook(config.run.summary_every));
  if (config.run.tensorboard) hooks.push_back(make_tensorboard_hook(config.run.summary_every));
  if (config.train.early_stop) hooks.push_back(make_early_stop_hook(*config.train.early_stop));
  return hooks;
}

}  // namespace trainer::train
