// Runs in training as lines of text: one line per run, or a screen with charts.
#pragma once

#include <string>
#include <vector>

#include "results/run_files/run_progress.h"

namespace trainer::commands {

// Returns a run in one line: "runs/digits: running  step 470/939  eta 0:12  ...".
std::string describe_run(const results::RunProgress& progress);

struct ScreenSize {
  int columns = 80, rows = 24;
  bool has_blocks = true;  // see results::TextChartSize
};
// Returns at most `rows` - 1 lines of less than `columns` characters. The charts are as high as all
// runs together leave room for.
std::vector<std::string> draw_screen(const std::vector<results::WatchedRun>& runs,
                                     const ScreenSize& size);

}  // namespace trainer::commands
