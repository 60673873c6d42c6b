// The points of a sweep: what became of each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/spelling.h"
#include "results/run_files/run_files.h"
#include "results/sweeps/plan.h"

namespace trainer::results {

struct PointState {
  enum class Kind {
    kFinished,
    kSkipped,  // had finished before this sweep
    kFailed,
    kDamaged,  // a file of its run cannot be read
    kStopped,  // stopped by a signal; the next sweep resumes it
    kNotStarted
  } kind = Kind::kNotStarted;
  Point point;
  int code = 0;                 // kFailed, kDamaged: the exit code
  std::string message;          // kFailed: the last error of errors.log; kDamaged: the error
  std::optional<RunFiles> run;  // kFinished, kSkipped
  bool is_done() const { return kind == Kind::kFinished || kind == Kind::kSkipped; }
  bool has_failed() const { return kind == Kind::kFailed || kind == Kind::kDamaged; }
};
constexpr auto spellings(PointState::Kind) {
  using enum PointState::Kind;
  return std::to_array<Spelling<PointState::Kind>>({{kFinished, "finished"},
                                                    {kSkipped, "finished earlier"},
                                                    {kFailed, "failed"},
                                                    {kDamaged, "damaged"},
                                                    {kStopped, "stopped"},
                                                    {kNotStarted, "not started"}});
}
inline std::string to_string(PointState::Kind kind) { return std::string(spell(kind)); }

// Returns the exit code of a sweep: that of an interruption if points are left for later, else that
// of the first point that failed, else kExitOk.
int find_exit_code(const std::vector<PointState>& points);

// Returns a state for each point, which has not started.
std::vector<PointState> make_states(const SweepPlan& plan);
// Reads the files of a point's run, or marks the point as damaged.
void read_point_files(const Path& folder, PointState& state);
// Returns the last error that the process of a point has written; "" if there is none.
std::string find_last_error(const Path& folder);
// Reads the states of the points from their folders, without training.
std::vector<PointState> collect(const SweepPlan& plan);
bool has_damaged(const std::vector<PointState>& points);

}  // namespace trainer::results
