#include "train/check_metrics.h"

#include <initializer_list>

#include "base/error.h"
#include "config/derived.h"

namespace trainer::train {
namespace {

void reject_metrics(const config::Config& config, std::initializer_list<const char*> names,
                    const char* why) {
  for (const char* name : names) {
    if (!config::names_metric(config, name)) continue;
    throw ConfigError(config.train.loc, concat("the metric ", name, " ", why));
  }
}

}  // namespace

void resolve_best(config::Config& config, const data::Datasets& data) {
  const bool is_default = config.run.best == config::Run{}.best;
  const bool is_multi_label = data.train && data.train->spec().is_multi_label();
  if (is_default && is_multi_label) config.run.best = "validation/loss";
}

void check_metrics(const config::Config& config, const data::Datasets& data) {
  if (data.train->spec().is_multi_label()) {
    config::Config resolved = config;
    resolve_best(resolved, data);
    reject_metrics(resolved, {"accuracy", "top_k_accuracy", "f1_weighted", "balanced_accuracy"},
                   "is for one class per image, but these images have several labels; name loss, "
                   "f1_macro, f1_micro, subset_accuracy, hamming_loss, auc or average_precision in "
                   "run.best, train.early_stop, train.stop_at and schedule.reduce_on_plateau");
  } else {
    reject_metrics(config, {"f1_micro", "subset_accuracy", "hamming_loss", "average_precision"},
                   "is for several labels per image, but these images have one class each; name "
                   "loss, accuracy, top_k_accuracy, f1_macro, f1_weighted, balanced_accuracy or "
                   "auc in run.best, train.early_stop, train.stop_at and "
                   "schedule.reduce_on_plateau");
  }
}

}  // namespace trainer::train
