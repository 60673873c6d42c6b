// Prints the progress and the summary of `trainer sweep`.
#pragma once

#include <cstddef>
#include <optional>
#include <ostream>
#include <string>

#include "commands/sweep/sweep.h"
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
class SweepPrinter final : public SweepObserver {
 public:
  // `out` must outlive the printer. `points` is the number of points of the sweep.
  SweepPrinter(const SweepPrinterOptions& options, std::size_t points, std::ostream& out);

  void on_start(std::size_t index, const results::Point& point) override;
  void on_progress(std::size_t index, std::int64_t step, std::int64_t total,
                   std::optional<double> eta_seconds) override;
  void on_end(std::size_t index, const results::PointState& state,
              std::optional<double> eta_seconds) override;

 private:
  std::string place(std::size_t index) const;

  SweepPrinterOptions options_;
  bool is_silent_;
  std::size_t points_;
  std::string name_;
  std::ostream& out_;
};

}  // namespace trainer::commands
