#include "train/check_metrics.h"

#include <initializer_list>
#include <string>

#include "base/error.h"
#include "config/derived.h"

namespace trainer::train {
namespace {

// Throws ConfigError if the config names one of these metrics. `expected` is what they are for,
// `found` what the data has, and `metrics` which metrics it has.
void reject_metrics(const config::Config& config, std::initializer_list<const char*> names,
                    const char* expected, const char* found, const char* metrics) {
  for (const char* name : names) {
    if (!config::names_metric(config, name)) continue;
    throw ConfigError(config.train.loc, "the metric ", name, " is for ", expected, ", but ", found,
                      "; name ", metrics,
                      " in run.best, train.early_stop, train.stop_at and "
                      "schedule.reduce_on_plateau");
  }
}

}  // namespace

Notice resolve_best(config::Config& config, const data::Datasets& data) {
  const std::string accuracy = config::Run{}.best;
  const bool is_multi_label = data.train && data.train->spec().is_multi_label();
  if (config.run.best != accuracy || !is_multi_label) return "";
  config.run.best = "validation/loss";
  return Notice::note(concat("run.best: ", accuracy,
                             " is for one class per image, but these images have several labels; ",
                             config.run.best, " is used in its place"));
}

void check_metrics(const config::Config& config, const data::Datasets& data) {
  if (data.train->spec().is_multi_label()) {
    config::Config resolved = config;
    resolve_best(resolved, data);
    reject_metrics(resolved, {"accuracy", "top_k_accuracy", "f1_weighted", "balanced_accuracy"},
                   "one class per image", "these images have several labels",
                   "loss, f1_macro, f1_micro, subset_accuracy, hamming_loss, auc or "
                   "average_precision");
  } else {
    reject_metrics(config, {"f1_micro", "subset_accuracy", "hamming_loss", "average_precision"},
                   "several labels per image", describe_label_kind(data),
                   data.train->spec().label_is_index()
                       ? "loss, accuracy, top_k_accuracy, f1_macro, f1_weighted, "
                         "balanced_accuracy or auc"
                       : "loss");
  }
}

const char* describe_label_kind(const data::Datasets& data) {
  return data.train->spec().label_is_index()
             ? "these images have one class each"
             : "this data has rows of targets that are not labels of 0 and 1";
}

}  // namespace trainer::train
