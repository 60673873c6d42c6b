#include "base/error.h"
#include "base/process/shell.h"
#include "results/crossval/crossval_result.h"
#include "results/evaluation/evaluation_report.h"
#include "results/pages/html.h"
#include "results/pages/sections.h"

namespace trainer::results {
namespace {

Table folds_table(const CrossvalResult& result) {
  std::vector<std::string> header{"fold", "samples", "step"};
  for (const auto& metric : result.metrics) header.push_back(metric.first);
  const auto& calibration = result.decisions.calibration;
  if (calibration) header.push_back("temperature of the other folds");
  Table table(std::move(header), NumbersFrom{1}, "The run of each fold, measured on the fold");
  for (std::size_t i = 0; i < result.folds.size(); ++i) {
    const FoldRun& run = result.folds[i];
    std::vector<std::string> row{std::to_string(run.fold), grouped(run.count),
                                 std::to_string(run.step)};
    for (const auto& metric : result.metrics) {
      row.push_back(fixed_or_dash(metric.second.values[i], 4));
    }
    if (calibration) row.push_back(fixed(calibration->temperatures[i], 4));
    table.add(std::move(row));
  }
  return table;
}

// Returns "68 % right (589 of 863 samples), 5 folds, ...".
std::string describe_folds(const CrossvalResult& crossval) {
  std::string result = grouped(crossval.count) + " samples";
  if (const auto& matrix = crossval.confusion.matrix; matrix && crossval.count > 0) {
    std::int64_t right = 0;
    for (std::size_t c = 0; c < matrix->size(); ++c) right += (*matrix)[c][c];
    result =
        concat(right_share(right, crossval.count), " right (", grouped(right), " of ", result, ")");
  }
  return concat(result, ", ", crossval.folds.size(),
                " folds, each sample predicted by the run that has not trained on it, with the ",
                to_string(crossval.checkpoint), " checkpoint");
}

// Adds the matrix of at most as many classes as fit a page.
void add_confusion(Document& page, const CrossvalResult& result) {
  if (!result.confusion.matrix || std::ssize(result.classes) > kMaxPrintedMatrix) return;
  ConfusionMatrix matrix{result.classes, {}};
  for (const auto& row : *result.confusion.matrix) {
    matrix.counts.insert(matrix.counts.end(), row.begin(), row.end());
  }
  page.add(std::move(matrix));
}

Table label_counts_table(const CrossvalResult& result) {
  Table table({"label", "images with it", "without it"}, NumbersFrom{1}, "Images of every label");
  for (const LabelMetrics& label : result.labels) {
    table.add({label.label, grouped(label.counts.positives), grouped(label.counts.negatives)});
  }
  return table;
}

Document metrics_section(const CrossvalResult& result) {
  Document section;
  section.add(Paragraph{describe_folds(result), Paragraph::Kind::kHeadline});
  section.add(Heading{"Metrics"});
  section.append(show_fold_metrics(result, 0));
  if (!result.labels.empty()) section.add(label_counts_table(result));
  section.add(Heading{"Folds"});
  section.add(folds_table(result));
  add_confusion(section, result);
  return section;
}

Document decisions_section(const FoldDecisions& decisions) {
  Document section;
  if (!decisions.calibration && !decisions.curves && !decisions.operating_point) return section;
  section.add(Heading{"Probabilities"});
  section.append(show_fold_decisions(decisions, true));
  for (const std::string& reason : list_contradictions(decisions)) section.add(Notice(reason));
  return section;
}

}  // namespace

Document crossval_report(const Summary& summary, const std::vector<Mistakes>& folds,
                         const Path& folder) {
  const CrossvalResult result = read_crossval(folder);
  Document page{"Cross-validation " + summary.name};
  page.append(metrics_section(result));
  page.append(decisions_section(result.decisions));
  for (const Mistakes& mistakes : folds) page.append(mistakes_section(mistakes));
  if (folds.empty()) {
    page.add(Paragraph{concat("`trainer report ", shell_word(folder.string()),
                              "` adds the mistakes of each fold, with heatmaps.")});
  }
  page.append(environment_section(summary));
  return page;
}

}  // namespace trainer::results
