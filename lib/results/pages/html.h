// Reports of runs, sweeps and cross-validations as one HTML file each, without further files or
// network.
#pragma once

#include <string>
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
std::string run_report(const RunFiles& run, const Mistakes& mistakes);
// The best combination, table, curves, plots, verdicts, points and environment.
std::string sweep_report(const Summary& summary);

// Metrics, folds and probabilities by the crossval.json of the folder, the mistakes of the folds,
// and the environment of the sweep over them. Throws DataError for a damaged file.
std::string crossval_report(const Summary& summary, const std::vector<Mistakes>& folds,
                            const Path& folder);

// Each replaces `html`; the plots of a sweep and of crossval also become <id>.svg in the folder.
void write_run_report(const RunFiles& run, const Mistakes& mistakes, const Path& html);
// Every chart of the run as <id>.svg in `folder`, which is made.
void write_run_plots(const RunFiles& run, const Path& folder);
void write_sweep_report(const Summary& summary, const Path& folder, const Path& html);
void write_crossval_report(const Summary& summary, const std::vector<Mistakes>& folds,
                           const Path& folder, const Path& html);

}  // namespace trainer::results
