#include "results/evaluation/metrics_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace trainer::results {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxTopConfusions = 1000;

}  // namespace

void add_confusion(Json& object, const engine::Confusion& confusion) {
  std::vector<engine::ConfusionCell> cells = confusion.cells();
  if (confusion.classes() > kMaxMatrixClasses) {
    engine::keep_largest_confusions(cells, kMaxTopConfusions);
    Json top = Json::array();
    for (const engine::ConfusionCell& cell : cells) {
      top.push_back(Json::array({cell.actual, cell.predicted, cell.count}));
    }
    object["top_confusions"] = std::move(top);
    return;
  }
  const std::size_t classes = confusion.classes();
  std::vector<std::vector<std::int64_t>> rows(classes, std::vector<std::int64_t>(classes));
  for (const engine::ConfusionCell& cell : cells) {
    rows[cell.actual][cell.predicted] = cell.count;
  }
  object["confusion"] = rows;
}

Json class_counts_json(const engine::Confusion& confusion) {
  std::vector<std::int64_t> support, predicted, correct;
  for (const engine::ClassCounts& counts : confusion.class_counts()) {
    support.push_back(counts.support);
    predicted.push_back(counts.predicted);
    correct.push_back(counts.correct);
  }
  return {{"support", support}, {"predicted", predicted}, {"correct", correct}};
}

Json labels_json(const engine::MultiLabelMetrics& metrics) {
  Json json = Json::array();
  for (const engine::LabelResult& label : metrics.labels) {
    Json one{{"positives", label.positives},
             {"negatives", label.negatives},
             {"true_positives", label.true_positives},
             {"false_positives", label.false_positives}};
    if (!std::isnan(label.auc)) one["auc"] = label.auc;
    if (!std::isnan(label.average_precision)) one["average_precision"] = label.average_precision;
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace trainer::results
