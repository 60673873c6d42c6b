#include "hooks/formats/confusion_json.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace trainer::hooks {
namespace {

constexpr std::size_t kMaxTopConfusions = 1000;

}  // namespace

void add_confusion(nlohmann::ordered_json& object, const engine::Confusion& confusion) {
  using Json = nlohmann::ordered_json;
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

nlohmann::ordered_json class_counts_json(const engine::Confusion& confusion) {
  std::vector<std::int64_t> support, predicted, correct;
  for (const engine::ClassCounts& counts : confusion.class_counts()) {
    support.push_back(counts.support);
    predicted.push_back(counts.predicted);
    correct.push_back(counts.correct);
  }
  return {{"support", support}, {"predicted", predicted}, {"correct", correct}};
}

}  // namespace trainer::hooks
