#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/text.h"
#include "config/checks/checks.h"
#include "config/values.h"

namespace trainer::config {
namespace {

void check_metric(Checks& checks, const std::string& path, const std::string& metric) {
  static const std::vector<std::string> kMetrics{
      "validation/loss",         "validation/accuracy",         "validation/top_k_accuracy",
      "validation/f1_macro",     "validation/f1_weighted",      "validation/balanced_accuracy",
      "validation/auc",          "validation/f1_micro",         "validation/subset_accuracy",
      "validation/hamming_loss", "validation/average_precision"};
  if (std::ranges::find(kMetrics, metric) != kMetrics.end()) return;
  checks.report(path, unknown("metric", metric, "Expected one of", kMetrics));
}

void check_optimizer(Checks& checks) {
  if (checks.config().optimizer.ema_warm_up && !checks.config().optimizer.ema) {
    checks.report("optimizer.ema_warm_up", "needs optimizer.ema, the momentum to which it rises");
  }
  if (checks.config().parallel.strategy != Parallel::Strategy::kParameterServer) return;
  if (!std::holds_alternative<Lamb>(checks.config().optimizer.kind)) return;
  checks.report("optimizer.lamb",
                "does not work with parallel.strategy: parameter_server, since its steps need the "
                "norms of whole parameters, of which a server has a part; use adamw");
}

void check_restore_best(Checks& checks) {
  const auto& stop = checks.config().train.early_stop;
  const std::string& best = checks.config().run.best;
  if (!stop || !stop->restore_best) return;
  if (checks.config().parallel.strategy == Parallel::Strategy::kParameterServer) {
    checks.report("train.early_stop.restore_best",
                  "does not work with parallel.strategy: parameter_server, whose servers hold the "
                  "parameters; take the best checkpoint of the run folder instead");
  }
  if (stop->metric == best) return;
  checks.report("train.early_stop.restore_best",
                concat("restores the checkpoint that run.best keeps, which goes by ",
                       best.empty() ? "no metric" : best, ", but early_stop watches ", stop->metric,
                       "; set run.best: ", stop->metric));
}

// data.path may hold a validation split; lib/train checks that.
void check_validation(Checks& checks, const char* path) {
  const Data& data = checks.config().data;
  const bool finds_splits = is_image_format(data.format) || holds_arrays(data.format);
  const bool may_be_found = finds_splits && !data.path.empty();
  if (divides_training_samples(data) || data.validation.given() || may_be_found) return;
  checks.report(path, "needs validation samples: give data.validation or data.validation_split");
}

void check_plateau(Checks& checks, const ReduceOnPlateauSchedule& plateau) {
  check_metric(checks, "schedule.reduce_on_plateau.metric", plateau.metric);
  check_validation(checks, "schedule.reduce_on_plateau");
  if (checks.config().parallel.strategy == Parallel::Strategy::kParameterServer) {
    checks.report("schedule.reduce_on_plateau",
                  "workers of parallel.strategy: parameter_server do not wait for evaluations; use "
                  "another schedule, or strategy: all_reduce");
  }
}

// Returns whether the files of the data, a list or arrays, decide how many labels a sample has.
bool may_have_several_labels(const Config& config) {
  return config.model.loss == LossKind::kBinaryCrossEntropy &&
         (config.data.format == DataFormat::kCsv || holds_arrays(config.data.format));
}

// Rejects the metrics of the other number of labels per image, where the config decides it. The
// default of run.best is not rejected, because training takes another metric in its place.
void check_label_metrics(Checks& checks) {
  const Config& config = checks.config();
  const bool is_csv = config.data.format == DataFormat::kCsv;
  const bool are_several = is_csv && !config.data.csv.label_separator.empty();
  if (!are_several && (is_csv || may_have_several_labels(config))) return;
  const std::vector<std::string> of_one{"validation/accuracy", "validation/top_k_accuracy",
                                        "validation/f1_weighted", "validation/balanced_accuracy"};
  const std::vector<std::string> of_several{"validation/f1_micro", "validation/subset_accuracy",
                                            "validation/hamming_loss",
                                            "validation/average_precision"};
  const std::vector<std::string>& wrong = are_several ? of_one : of_several;
  const auto check = [&](const char* path, const std::string& metric) {
    if (std::ranges::find(wrong, metric) == wrong.end()) return;
    checks.report(path,
                  concat("is ", metric,
                         are_several ? ", which is for one class per image, but "
                                       "data.csv.label_separator gives several labels; name loss, "
                                       "f1_macro, f1_micro, subset_accuracy, hamming_loss, auc or "
                                       "average_precision"
                                     : ", which is for several labels per image, which a csv list "
                                       "and arrays may have; name loss, accuracy, top_k_accuracy, "
                                       "f1_macro, f1_weighted, balanced_accuracy or auc"));
  };
  if (config.run.best != Run{}.best) check("run.best", config.run.best);
  const Train& train = config.train;
  if (train.early_stop) check("train.early_stop.metric", train.early_stop->metric);
  if (train.stop_at) check("train.stop_at.metric", train.stop_at->metric);
  if (const auto* plateau = std::get_if<ReduceOnPlateauSchedule>(&config.schedule.kind)) {
    check("schedule.reduce_on_plateau.metric", plateau->metric);
  }
}

// Rejects weights that contradict the number of labels per image, as far as the config decides it.
void check_label_weights(Checks& checks) {
  const Config& config = checks.config();
  const Train& train = config.train;
  const bool may_be_several = may_have_several_labels(config);
  if (train.pos_weight && !may_be_several) {
    checks.report("train.pos_weight",
                  "works with several labels per image only, those of format: csv, npz or idx with "
                  "model.loss: binary_cross_entropy; give train.class_weight");
  }
  const bool are_several = may_be_several && !config.data.csv.label_separator.empty();
  if (are_several && train.class_weight && train.class_weight->balanced) {
    checks.report("train.class_weight",
                  "balanced is for one class per image; with several labels per image give "
                  "train.pos_weight: balanced, or a map of labels to weights");
  }
}

void check_cache_features(Checks& checks) {
  const CacheFeatures cache = checks.config().train.cache_features;
  if (cache == CacheFeatures::kAuto || cache == CacheFeatures::kOff) return;
  const bool none = !checks.config().model.backbone ||
                    checks.config().model.backbone->freeze.kind == Freeze::Kind::kNone;
  if (none) {
    checks.report(
        "train.cache_features",
        "there are no frozen layers whose features could be kept: set model.backbone.freeze");
  } else if (!checks.config().data.train.augment.empty()) {
    checks.report(
        "train.cache_features",
        "data.train.augment makes the features different in every epoch: remove it, or use "
        "auto or off");
  }
}

void check_replicas(Checks& checks) {
  const Parallel& parallel = checks.config().parallel;
  const bool ramp_up = std::holds_alternative<RampUpSchedule>(checks.config().schedule.kind);
  if (parallel.replicas > 1 && !parallel.lr_scaling && !ramp_up) {
    checks.report("parallel.lr_scaling",
                  concat("must be given with ", parallel.replicas,
                         " replicas, whose batch is as many times as large: none, linear or sqrt"));
  }
  const bool scales = parallel.lr_scaling && *parallel.lr_scaling != Parallel::LrScaling::kNone;
  if (scales && ramp_up) {
    checks.report("parallel.lr_scaling",
                  "must be none or left out: ramp_up has learning rates of its own; "
                  "schedule.ramp_up.scale scales its peak");
  }
  if (parallel.threads && *parallel.threads < parallel.replicas) {
    checks.report("parallel.threads", concat("gives fewer than one thread to each of ",
                                             parallel.replicas, " replicas"));
  }
}

void check_shard(Checks& checks) {
  if (checks.config().parallel.shard != Parallel::Shard::kOff) return;
  if (checks.config().parallel.reduction == Parallel::Reduction::kOrdered) {
    checks.report(
        "parallel.shard",
        "off has no meaning with reduction: ordered, which promises the same result for any "
        "number of replicas: with off, that number decides which samples make up a batch");
  }
  if (!checks.config().data.shuffle) {
    checks.report("parallel.shard",
                  "off needs data.shuffle: without it all replicas would take the same samples");
  }
}

// Rejects keys that need all workers at the same step.
void check_strategy(Checks& checks) {
  const Parallel& parallel = checks.config().parallel;
  if (parallel.strategy != Parallel::Strategy::kParameterServer) {
    if (parallel.max_staleness) {
      checks.report("parallel.max_staleness", "needs parallel.strategy: parameter_server");
    }
    return;
  }
  const std::string with =
      "with parallel.strategy: parameter_server, whose workers do not wait for each other; ";
  if (parallel.replicas > 1) {
    checks.report("parallel.replicas",
                  concat("must be 1 ", with, "start more workers; found ", parallel.replicas));
  }
  if (parallel.reduction == Parallel::Reduction::kOrdered) {
    checks.report("parallel.reduction",
                  "must be fast " + with + "there is no sum over workers to order");
  }
  if (parallel.shard == Parallel::Shard::kOff) {
    checks.report("parallel.shard",
                  "must be sample " + with + "each worker trains on its own part of the samples");
  }
  if (parallel.batch_norm.sync) {
    checks.report("parallel.batch_norm.sync",
                  "must be false " + with + "there is no batch of all workers");
  }
  if (parallel.lr_scaling && *parallel.lr_scaling != Parallel::LrScaling::kNone) {
    checks.report("parallel.lr_scaling",
                  "must be none " + with + "each update comes from the batch of one worker");
  }
  if (checks.config().model.backbone && !checks.config().model.backbone->unfreeze.empty()) {
    checks.report(
        "model.backbone.unfreeze",
        "must be empty " + with + "they have no common step at which frozen layers could change");
  }
}

void check_ordered(Checks& checks) {
  const Parallel& parallel = checks.config().parallel;
  if (!std::has_single_bit(static_cast<std::uint64_t>(parallel.micro_batches))) {
    checks.report("parallel.micro_batches",
                  concat("must be a power of two; found ", parallel.micro_batches));
    return;
  }
  const std::int64_t lanes = parallel.lanes.value_or(1);
  if (parallel.micro_batches / parallel.replicas < lanes) {
    checks.report("parallel.micro_batches",
                  concat("must be at least one for each of the ", parallel.replicas * lanes,
                         " lanes of all replicas; found ", parallel.micro_batches));
  }
}

void check_parallel(Checks& checks) {
  check_devices(checks);
  check_collective(checks);
  const Duration& timeout = checks.config().parallel.timeout;
  if (timeout.unit != Duration::Unit::kSeconds || timeout.count < 1) {
    checks.report("parallel.timeout",
                  "expected at least '1 second', found '" + to_string(timeout) + "'");
  } else if (constexpr double kWeek = 7 * 24 * 3600; timeout.count > kWeek) {
    checks.report("parallel.timeout",
                  "expected at most '604800 seconds', a week; found '" + to_string(timeout) + "'");
  }
  check_replicas(checks);
  check_shard(checks);
  check_strategy(checks);
  if (checks.config().parallel.reduction == Parallel::Reduction::kOrdered) check_ordered(checks);
}

void check_ramp_up(Checks& checks) {
  const auto* ramp_up = std::get_if<RampUpSchedule>(&checks.config().schedule.kind);
  if (ramp_up == nullptr) return;
  const bool scaled = ramp_up->scale != RampUpSchedule::Scale::kNone;
  const auto replicas = static_cast<double>(checks.config().parallel.replicas);
  // The linear scale gives the largest peak. The number of processes is not part of a config.
  const double highest = scaled ? ramp_up->peak * replicas : ramp_up->peak;
  for (const auto& [key, value] :
       {std::pair{"start", ramp_up->start}, std::pair{"floor", ramp_up->floor}}) {
    if (value <= highest || (key == std::string("start") && ramp_up->ramp_epochs == 0)) continue;
    checks.report(concat("schedule.ramp_up.", key), concat("must be at most the peak, ", highest,
                                                           ", to which the rate rises and from "
                                                           "which it decays; found ",
                                                           value));
  }
}

// The URL is a part of the run's files, which must not have secrets.
void check_mlflow(Checks& checks) {
  const std::string& url = checks.config().run.mlflow;
  if (url.empty()) return;
  const std::size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  const std::string host = url.substr(scheme, url.find('/', scheme) - scheme);
  if (url.find('@') != std::string::npos) {
    checks.report("run.mlflow",
                  "must not contain a name or a password; set the environment variables "
                  "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                  "MLFLOW_TRACKING_TOKEN, instead");
  } else if (scheme == 0 || host.empty() || url.find_first_of("?# ") != std::string::npos ||
             !is_line_of_text(url)) {
    checks.report("run.mlflow",
                  concat("expected the URL of a server, such as http://localhost:5000, found ",
                         printable(url)));
  }
}

void check_prometheus(Checks& checks) {
  const std::string& target = checks.config().run.prometheus;
  if (target.empty() || (parse_prometheus(target) && is_line_of_text(target))) return;
  checks.report("run.prometheus",
                concat("expected a file whose name ends in .prom, which the textfile collector "
                       "reads, or \":PORT\" with a port from 1 to 65535, found ",
                       printable(target)));
}

}  // namespace

void check_training(Checks& checks) {
  const Schedule& schedule = checks.config().schedule;
  if (schedule.warm_up && std::holds_alternative<RampUpSchedule>(schedule.kind)) {
    checks.report("schedule.warm_up",
                  "ramp_up has a rise of its own; remove warm_up or set ramp_epochs");
  }
  check_ramp_up(checks);
  if (const auto& stop = checks.config().train.early_stop) {
    check_metric(checks, "train.early_stop.metric", stop->metric);
    check_validation(checks, "train.early_stop");
  }
  if (const auto& stop = checks.config().train.stop_at) {
    check_metric(checks, "train.stop_at.metric", stop->metric);
    check_validation(checks, "train.stop_at");
  }
  if (const auto* plateau = std::get_if<ReduceOnPlateauSchedule>(&schedule.kind)) {
    check_plateau(checks, *plateau);
  }
  check_restore_best(checks);
  check_optimizer(checks);
  check_precision(checks);
  check_label_metrics(checks);
  check_label_weights(checks);
  check_cache_features(checks);
  check_parallel(checks);
  if (!checks.config().run.best.empty()) {
    check_metric(checks, "run.best", checks.config().run.best);
  }
  check_mlflow(checks);
  check_prometheus(checks);
}

}  // namespace trainer::config
