// Reports of runs, sweeps and cross-validations.
#pragma once

#include <optional>
#include <vector>

#include "results/document/document.h"
#include "results/pages/mistakes.h"
#include "results/sweeps/summary.h"

namespace trainer::results {

// Returns the charts of loss, accuracy, learning rate and throughput over the steps, as far as the
// run has rows of them.
Charts run_charts(const RunFiles& run);
// Returns charts of accuracy and loss, where the runs have them, images/second and total time over
// the number of replicas; the last two have an ideal line. When all runs have the same number of
// replicas, the x axis is the first key with numbers for values. Without such a key there are no
// charts.
Charts sweep_charts(const Summary& summary);
// Returns charts with the accuracy and the loss of the best points over the epochs, at most 6.
Charts sweep_curves(const Summary& summary);

// Results, curves, confusion matrix, per-class table, mistakes, step time, devices, data,
// environment and config.
Document run_report(const RunFiles& run, const Mistakes& mistakes);
// The best combination, table, curves, plots, verdicts, points and environment.
Document sweep_report(const Summary& summary);

// Metrics, folds and probabilities by the crossval.json of the folder, the mistakes of the folds,
// and the environment of the sweep over them. Throws DataError for a damaged file.
Document crossval_report(const Summary& summary, const std::vector<Mistakes>& folds,
                         const Path& folder);

// Replaces `html` by the page of the report. Writes its charts as <id>.svg into the folder `plots`,
// if there is one, which is made.
void write_report(const Document& report, const Path& html, const std::optional<Path>& plots);

}  // namespace trainer::results
