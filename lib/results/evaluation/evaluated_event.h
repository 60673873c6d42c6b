// The line of `evaluate --json`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/evaluation/evaluation_report.h"
#include "results/field.h"
#include "results/train_events.h"

namespace trainer::results {

struct NamedClass {
  std::string name;
  engine::ClassScores scores;
};
void fields(FieldVisitor& v, NamedClass& row);

struct NamedLabel {
  std::string name;
  double threshold = 0.5;  // the probability above which it is predicted
  engine::LabelResult result;
};
void fields(FieldVisitor& v, NamedLabel& label);

struct EvaluatedEvent {
  std::string run;  // the user's name for it
  std::int64_t step = 0;
  Split split = Split::kTest;
  double loss = 0, accuracy = 0, accuracy_low = 0, accuracy_high = 0;
  std::int64_t count = 0;
  std::string checkpoint;
  FurtherMetrics further;
  std::string thresholds;  // the goal by which the thresholds of labels were found
  // `per_label` is set if samples have several labels, the others if they do not.
  std::vector<NamedLabel> per_label;
  std::optional<std::vector<NamedClass>> per_class;
  ConfusionCounts confusion;
};
EvaluatedEvent make_event(const EvaluationReport& report);
void fields(FieldVisitor& v, EvaluatedEvent& event);

}  // namespace trainer::results
