#include "hooks/formats/labels_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace trainer::hooks {

nlohmann::ordered_json labels_json(const engine::MultiLabelMetrics& metrics) {
  auto json = nlohmann::ordered_json::array();
  for (const engine::LabelResult& label : metrics.labels) {
    nlohmann::ordered_json one{{"positives", label.positives},
                               {"negatives", label.negatives},
                               {"true_positives", label.true_positives},
                               {"false_positives", label.false_positives}};
    if (!std::isnan(label.auc)) one["auc"] = label.auc;
    if (!std::isnan(label.average_precision)) one["average_precision"] = label.average_precision;
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace trainer::hooks
