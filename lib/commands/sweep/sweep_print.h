// Prints the progress of `trainer sweep`.
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>

#include "results/sweeps/summary.h"

namespace trainer::commands {

struct SweepPrinterOptions {
  bool json = false;   // prints one event per point that has ended, and nothing else
  bool quiet = false;  // prints no progress
  bool is_terminal = false;
  results::ScoredCheckpoint checkpoint =
      results::ScoredCheckpoint::kBest;  // the checkpoint of an event's accuracy
};

// Prints one line per point. On a terminal, the line of the point in training is rewritten.
class SweepPrinter {
 public:
  // `out` must outlive the printer. `points` is the number of points of the sweep.
  SweepPrinter(const SweepPrinterOptions& options, std::size_t points, std::ostream& out);

  // A point begins, goes on (steps of total), or is over. `eta_seconds`: to the end of the sweep,
  // nothing before the first step.
  void on_start(std::size_t index, const results::Point& point);
  void on_progress(std::size_t index, std::int64_t step, std::int64_t total,
                   std::optional<double> eta_seconds);
  void on_end(std::size_t index, const results::PointState& state,
              std::optional<double> eta_seconds);

 private:
  std::string place(std::size_t index) const;

  SweepPrinterOptions options_;
  bool is_silent_;
  std::size_t points_;
  std::string name_;
  std::ostream& out_;
};

}  // namespace trainer::commands
