#include "engine/evaluate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "base/numbers/sum_tree.h"
#include "config/derived.h"
#include "data/not_finite.h"
#include "engine/flip_evaluation.h"

namespace trainer::engine {

namespace {

// Returns whether the row has a 1 for one class and a 0 for all others, or is a single 0 or 1.
bool is_one_hot(const std::vector<float>& row) {
  const auto ones = std::ranges::count(row, 1.0f);
  const auto zeros = std::ranges::count(row, 0.0f);
  if (ones + zeros != std::ssize(row)) return false;
  return row.size() == 1 || ones == 1;
}

// Returns whether the row divides the sample among classes.
bool is_distribution(const std::vector<float>& row) {
  constexpr double kRounding = 1e-3;
  double sum = 0;
  for (const float share : row) {
    if (share < 0) return false;
    sum += static_cast<double>(share);
  }
  return row.size() == 1 || std::abs(sum - 1) < kRounding;
}

// Returns the losses of a batch times the weights of its samples, or the losses unchanged if
// samples have no weights.
std::span<const float> weigh(const data::Dataset& dataset, const data::Batch& batch,
                             std::span<const float> losses, std::vector<float>& weighed) {
  if (!dataset.spec().has_weights) return losses;
  weighed.assign(losses.begin(), losses.end());
  for (std::size_t i = 0; i < weighed.size(); ++i) {
    weighed[i] *= dataset.weight_at(batch.indices[i]);
  }
  return weighed;
}

// The metrics of a split so far.
struct Sums {
  MetricsAccumulator metrics;
  std::optional<MultiLabelAccumulator> multi_label;

  Metrics result() const {
    Metrics result = metrics.result();
    if (multi_label) result.multi_label = multi_label->result();
    return result;
  }
};

Sums make_sums(const EvaluateOptions& options, std::int64_t outputs, const data::Dataset& dataset) {
  Sums sums{MetricsAccumulator(options.loss, outputs, options.top_k,
                               has_classes(dataset, options.loss), options.max_scores),
            std::nullopt};
  if (dataset.spec().is_multi_label()) {
    sums.multi_label.emplace(outputs, options.max_scores, options.thresholds);
  }
  return sums;
}

// Returns the targets of a batch of several labels, [samples, labels]; empty for other labels.
std::span<const float> find_targets(const data::Dataset& dataset, const data::Batch& batch) {
  if (!dataset.spec().is_multi_label()) return {};
  return {static_cast<const float*>(batch.labels),
          static_cast<std::size_t>(batch.range.count * dataset.spec().label_width)};
}

// Gathers the results of all workers for their parts of a batch, in the order of the samples, on
// every worker.
class Gathered {
 public:
  // `targets`: the numbers of targets per sample, 0 for labels that are classes. `leaves`: how the
  // workers divide a batch, see rank_samples().
  Gathered(cluster::Communicator& workers, std::int64_t outputs, std::int64_t targets,
           std::int64_t leaves)
      : workers_(workers),
        outputs_(outputs),
        targets_width_(targets),
        width_(outputs_ + targets_width_ + 2),
        leaves_(leaves) {}

  // Exchanges a row per sample: its logits, its loss, its label, its targets. Returns whether any
  // worker asks to stop; all of them stop then.
  bool gather(const data::Batch& batch, std::span<const float> logits,
              std::span<const float> losses, const std::vector<std::int32_t>& labels,
              std::span<const float> targets, bool stop) {
    const std::int64_t ranks = workers_.size();
    std::vector<float> mine = make_rows(batch.global), all(mine.size() * workers_count());
    mine.back() = stop ? 1.0f : 0.0f;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      float* row = mine.data() + i * width_;
      row = std::copy_n(logits.begin() + i * outputs_, outputs_, row);
      *row++ = losses[i];
      *row++ = std::bit_cast<float>(labels[i]);
      std::copy_n(targets.begin() + i * targets_width_, targets_width_, row);
    }
    workers_.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    logits_.clear();
    losses_.clear();
    labels_.clear();
    targets_.clear();
    bool any = false;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const auto count =
          static_cast<std::size_t>(rank_samples(batch.global, leaves_, ranks, rank).count);
      const float* row = all.data() + rank * mine.size();
      any = any || row[mine.size() - 1] > 0;
      for (std::size_t i = 0; i < count; ++i, row += width_) {
        const float* const loss = row + outputs_;
        logits_.insert(logits_.end(), row, loss);
        losses_.push_back(loss[0]);
        labels_.push_back(std::bit_cast<std::int32_t>(loss[1]));
        targets_.insert(targets_.end(), loss + 2, row + width_);
      }
    }
    return any;
  }
  // Takes part in the gather() of the other workers, for a batch of `samples`, to stop them.
  void stop(std::int64_t samples) {
    std::vector<float> mine = make_rows(samples), all(mine.size() * workers_count());
    mine.back() = 1.0f;
    workers_.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  }
  void add_to(Sums& sums) const {
    sums.metrics.add(logits_, losses_, labels_);
    if (sums.multi_label) sums.multi_label->add(logits_, targets_);
  }

 private:
  std::size_t workers_count() const { return workers_.size(); }
  // Returns memory for one worker's part of a batch, and for its request to stop at the end.
  std::vector<float> make_rows(std::int64_t samples) const {
    const std::int64_t max_rows = max_rank_samples(samples, leaves_, workers_.size());
    return std::vector<float>(static_cast<std::size_t>(max_rows) * width_ + 1);
  }

  cluster::Communicator& workers_;
  std::size_t outputs_, targets_width_, width_;
  std::int64_t leaves_;
  std::vector<float> logits_, losses_, targets_;
  std::vector<std::int32_t> labels_;
};

// Sends the matrix of rank 0 to all ranks.
void broadcast_confusion(cluster::Communicator& workers, Confusion& confusion) {
  std::vector<ConfusionCell> cells;
  if (workers.rank() == 0) cells = confusion.cells();
  auto count = std::ssize(cells);
  workers.broadcast(std::as_writable_bytes(std::span(&count, 1)), 0);
  cells.resize(count);
  workers.broadcast(std::as_writable_bytes(std::span(cells)), 0);
  if (workers.rank() == 0) return;
  confusion = Confusion(confusion.classes());
  for (const ConfusionCell& cell : cells) confusion.add(cell.actual, cell.predicted, cell.count);
}

// Sends the results of rank 0 to all ranks. Their number of labels is the same on all.
void broadcast_labels(cluster::Communicator& workers, MultiLabelMetrics& metrics) {
  workers.broadcast(std::as_writable_bytes(std::span(metrics.labels)), 0);
  workers.broadcast(std::as_writable_bytes(std::span(&metrics.samples, 1)), 0);
  workers.broadcast(std::as_writable_bytes(std::span(&metrics.exact, 1)), 0);
}

// Rank 0 evaluates while the others exchange a flag with it after every batch: any of them may end
// the evaluation, and a long evaluation does not run into a timeout.
std::optional<Metrics> evaluate_alone(Engine& engine, const data::Dataset& dataset,
                                      const EvaluateOptions& options,
                                      data::FeatureDataset* features) {
  cluster::Communicator& workers = *options.workers;
  EvaluateOptions own = options;
  own.workers = nullptr;
  const auto any_stops = [&](bool here) {
    std::int64_t stops = here ? 1 : 0;
    workers.all_reduce(std::span(&stops, 1));
    return stops > 0;
  };
  own.cancelled = [&] { return any_stops(options.cancelled && options.cancelled()); };
  std::optional<Metrics> metrics;
  if (workers.rank() == 0) {
    try {
      metrics = evaluate(engine, dataset, own, features);
    } catch (const DataError&) {
      any_stops(true);
      throw;
    }
    if (!metrics) return std::nullopt;
  } else {
    const std::int64_t batches = data::batches_per_epoch(dataset.size(), engine.evaluation_batch());
    for (std::int64_t i = 0; i < batches; ++i) {
      if (own.cancelled()) return std::nullopt;
    }
    metrics = make_sums(options, engine.replica().outputs(), dataset).result();
  }
  const auto broadcast_from_chief = [&](auto&&... values) {
    (workers.broadcast(std::as_writable_bytes(std::span(&values, 1)), 0), ...);
  };
  broadcast_from_chief(metrics->count, metrics->loss, metrics->correct, metrics->accuracy,
                       metrics->accuracy_interval, metrics->top_k_accuracy, metrics->auc);
  broadcast_confusion(workers, metrics->confusion);
  if (!metrics->multi_label.empty()) broadcast_labels(workers, metrics->multi_label);
  return metrics;
}

}  // namespace

std::vector<std::int32_t> label_indices(const data::Dataset& dataset, const data::Batch& batch) {
  const std::size_t count = batch.range.count;
  std::vector<std::int32_t> indices(count);
  if (dataset.spec().label_is_index()) {
    const auto* labels = static_cast<const std::int32_t*>(batch.labels);
    std::copy(labels, labels + count, indices.begin());
    return indices;
  }
  const std::size_t stride = dataset.spec().label_width;
  const std::size_t width = dataset.spec().targets();
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = static_cast<const float*>(batch.labels) + i * stride;
    // A single number is the label itself; several numbers are one-hot or probabilities.
    indices[i] = width == 1 ? static_cast<std::int32_t>(row[0] > 0.5f)
                            : static_cast<std::int32_t>(std::max_element(row, row + width) - row);
  }
  return indices;
}

HostBatch host_batch(const data::Batch& batch, bool is_features) {
  return {batch.range.count, batch.images, is_features, batch.labels};
}

bool has_classes(const data::Dataset& dataset, LossKind loss) {
  if (dataset.spec().is_multi_label()) return false;
  if (dataset.spec().label_is_index() || !dataset.spec().in_memory) return true;
  const bool any_target = loss == LossKind::kMeanSquaredError;
  std::vector<std::byte> image(dataset.spec().image_bytes());
  std::vector<float> row(dataset.spec().label_width);
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    dataset.get(i, image.data(), row.data());
    if (!(any_target ? is_one_hot(row) : is_distribution(row))) return false;
  }
  return true;
}

EvaluateOptions evaluate_options(const config::Config& config) {
  EvaluateOptions options;
  options.loss = config.model.loss;
  options.top_k = config.evaluate.top_k;
  options.alone = !config.parallel.evaluate;
  if (config::names_metric(config, "auc") || config::names_metric(config, "average_precision")) {
    options.max_scores = std::numeric_limits<std::int64_t>::max();
  }
  return options;
}

std::optional<Metrics> evaluate(Engine& engine, const data::Dataset& dataset,
                                const EvaluateOptions& options, data::FeatureDataset* features) {
  if (options.flip && features != nullptr) throw std::logic_error("mirror images need images");
  if (options.workers != nullptr && options.alone) {
    return evaluate_alone(engine, dataset, options, features);
  }
  Sums sums = make_sums(options, engine.replica().outputs(), dataset);
  data::LoaderOptions loading;
  loading.batch_size = engine.evaluation_batch();
  std::optional<Gathered> gathered;
  if (options.workers != nullptr) {
    loading.rank = options.workers->rank();
    loading.ranks = options.workers->size();
    loading.batch_size *= loading.ranks;
    loading.leaves = engine.replica().leaves();
    const bool is_multi_label = dataset.spec().is_multi_label();
    gathered.emplace(*options.workers, engine.replica().outputs(),
                     is_multi_label ? dataset.spec().label_width : 0, engine.replica().leaves());
  }
  loading.augment = false;
  loading.progress = options.progress;
  loading.end_step = data::batches_per_epoch(dataset.size(), loading.batch_size);
  const bool ready = features != nullptr && features->complete();
  const auto loader = data::make_loader(ready ? *features : dataset, loading);
  FlipEvaluation evaluation(engine, dataset.spec(), options.loss, options.flip);
  std::int64_t done = 0;  // batches
  std::vector<float> weighed;
  const auto next = [&] {
    try {
      return loader->next();
    } catch (const DataError&) {
      if (gathered)
        gathered->stop(data::batch_range(dataset.size(), loading.batch_size, done).count);
      throw;
    }
  };
  for (const data::Batch* batch = next(); batch != nullptr; batch = next()) {
    const bool cancelled = options.cancelled && options.cancelled();
    if (cancelled && !gathered) return std::nullopt;
    const std::size_t count = batch->range.count;
    evaluation.run(host_batch(*batch, ready), batch->global);
    if (features != nullptr && !ready) {
      features->store(*batch, engine.read_features(batch->range.count));
    }
    const auto logits =
        evaluation.logits().first(count * static_cast<std::size_t>(engine.replica().outputs()));
    const std::vector<std::int32_t> labels = label_indices(dataset, *batch);
    const auto losses = weigh(dataset, *batch, evaluation.losses().first(count), weighed);
    if (gathered) {
      const auto targets = find_targets(dataset, *batch);
      if (gathered->gather(*batch, logits, losses, labels, targets, cancelled)) {
        return std::nullopt;
      }
      gathered->add_to(sums);
    } else {
      sums.metrics.add(logits, losses, labels);
      if (sums.multi_label) sums.multi_label->add(logits, find_targets(dataset, *batch));
    }
    if (options.each_batch) options.each_batch(*batch, logits);
    loader->release();
    ++done;
  }
  return sums.result();
}

std::string why_not_finite(const Metrics& metrics, const config::Data& config, Split split,
                           const data::Dataset& dataset) {
  if (metrics.count == 0 || std::isfinite(metrics.loss)) return "";
  const std::string bad = data::find_not_finite(config, split, dataset);
  return concat("the loss of the ", to_string(split), " split is not a finite number: ",
                bad.empty() ? "its samples are finite, so the model has diverged on them; look at "
                              "data.normalize and the learning rate"
                            : bad + "; correct or remove this sample");
}

}  // namespace trainer::engine
