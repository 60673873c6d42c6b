// Reports of runs and sweeps: one HTML file each, which needs nothing else and no network.
#pragma once

#include <string>
#include <vector>

#include "experiment/sweep/summary.h"
#include "report/page/mistakes.h"
#include "report/page/svg.h"

namespace trainer::report {

// Loss, accuracy, learning rate and throughput over the steps; those of which there are rows.
std::vector<Chart> run_charts(const experiment::RunFiles& run);
// The articles' two plots: images/second and total time against the number of replicas, with the
// ideal line; against the first key with numbers for values where all have the same number, and
// none where there is no such key.
std::vector<Chart> sweep_charts(const experiment::Summary& summary);

// Results, curves, confusion matrix, per-class table, mistakes, step time, devices, data,
// environment and config.
std::string run_report(const experiment::RunFiles& run, const Mistakes& mistakes);
// Plots, table with verdicts, points and environment.
std::string sweep_report(const experiment::Summary& summary);

// Each replaces `html`; a sweep's plots also become <id>.svg in its folder.
void write_run_report(const experiment::RunFiles& run, const Mistakes& mistakes, const Path& html);
// Every chart of the run as <id>.svg in `folder`, which is made.
void write_run_plots(const experiment::RunFiles& run, const Path& folder);
void write_sweep_report(const experiment::Summary& summary, const Path& folder, const Path& html);

}  // namespace trainer::report
