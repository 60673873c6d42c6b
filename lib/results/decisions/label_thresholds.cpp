#include "results/decisions/label_thresholds.h"

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/statistics.h"

namespace trainer::results {

void fields(FieldVisitor& v, StoredThresholds::Label& label) {
  v("label", label.label, "The name of the label.");
  v.derived("probability", sigmoid(label.logit), kShare,
            "The probability above which it is predicted.");
  v("logit", label.logit, Unit("").never_null(), "The logit above which it is predicted.");
}

void fields(FieldVisitor& v, StoredThresholds& thresholds) {
  v("goal", thresholds.goal, "The goal of --thresholds.");
  v("split", thresholds.split, "The split on which the thresholds were found.");
  v("labels", thresholds.labels, "The threshold of each label.");
}

Document show_thresholds(const StoredThresholds& thresholds, const std::string& ending) {
  Document document;
  document.add(Paragraph{concat("thresholds by ", thresholds.goal, ", found on the ",
                                to_string(thresholds.split), " split", ending)});
  Table table({"label", "probability above which it is predicted"}, NumbersFrom{1},
              "Thresholds of the labels");
  for (const StoredThresholds::Label& label : thresholds.labels) {
    table.add({label.label, fixed(sigmoid(label.logit), 4)});
  }
  document.add(std::move(table));
  return document;
}

}  // namespace trainer::results
