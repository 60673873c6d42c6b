// `trainer evaluate --abstain`: the confidence below which the model abstains, found on the
// validation split and applied to the evaluated one.
#pragma once

#include <optional>
#include <string>

#include "base/split.h"
#include "engine/metrics/labelled_logits.h"
#include "results/decisions/abstain.h"
#include "results/decisions/prediction.h"
#include "results/document/document.h"
#include "results/field.h"

namespace trainer::results {

struct AbstentionReport {
  double allowed_error = 0;
  double confidence = 0;  // NaN if the model always abstains
  double temperature = 1;
  std::optional<std::string> criterion;  // that of the operating point that decides, if one does
  Answers validation;                    // the answers on the validation split
  Split split = Split::kTest;            // the evaluated split
  std::string contradiction;             // see contradiction.h
  Answers answers;                       // the answers on the evaluated split
};
void fields(FieldVisitor& v, AbstentionReport& report);

// `options` decide about the classes as for `predict`. The scores are those of the model without a
// temperature.
AbstentionReport make_abstention_report(double error, const PredictOptions& options,
                                        const engine::LabelledLogits& validation, Split split,
                                        const engine::LabelledLogits& scores);

// Returns the confidence, and of both splits the share of the samples that get a class and their
// error with its 95 % interval. `ending` ends the first line: "; stored in ...".
Document show_abstention(const AbstentionReport& report, const std::string& ending);

}  // namespace trainer::results
