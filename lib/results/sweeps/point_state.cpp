#include "results/sweeps/point_state.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"

namespace trainer::results {

int find_exit_code(const std::vector<PointState>& points) {
  int code = kExitOk;
  for (const PointState& point : points) {
    // Only a signal leaves a point for later.
    const bool is_left =
        point.kind == PointState::Kind::kStopped || point.kind == PointState::Kind::kNotStarted;
    if (is_left) return kExitInterrupted;
    if (point.has_failed() && code == kExitOk) {
      code = point.code != 0 ? point.code : kExitCheck;
    }
  }
  return code;
}

std::vector<PointState> make_states(const SweepPlan& plan) {
  std::vector<PointState> states;
  for (const Point& point : plan.points) {
    states.emplace_back();
    states.back().point = point;
  }
  return states;
}

void read_point_files(const Path& folder, PointState& state) {
  try {
    state.run = read_run(folder);
  } catch (const Error& error) {
    state.kind = PointState::Kind::kDamaged;
    state.code = kExitData;
    state.message = concat(error.what(), "; remove the folder ", printable(folder.string()),
                           ", and the same command trains this point again");
  }
}

std::string find_last_error(const Path& folder) {
  const Path path = folder / "errors.log";
  constexpr std::string_view kMark = "error: ";
  if (!std::filesystem::exists(path)) return "";
  const std::string text = read_text_file(path);
  const auto mark = text.rfind(kMark);
  if (mark == std::string::npos) return "";
  const auto begin = mark + kMark.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::vector<PointState> collect(const SweepPlan& plan) {
  std::vector<PointState> states = make_states(plan);
  for (PointState& state : states) {
    const Path folder = plan.folder / state.point.name;
    if (!std::filesystem::exists(folder)) continue;
    if (std::filesystem::exists(folder / "run.json")) read_point_files(folder, state);
    if (state.kind == PointState::Kind::kDamaged) continue;
    if (state.run && state.run->finished) {
      state.kind = PointState::Kind::kSkipped;
      continue;
    }
    state.run.reset();
    state.message = find_last_error(folder);
    state.kind = state.message.empty() ? PointState::Kind::kStopped : PointState::Kind::kFailed;
  }
  return states;
}

bool has_damaged(const std::vector<PointState>& points) {
  return std::ranges::any_of(
      points, [](const PointState& point) { return point.kind == PointState::Kind::kDamaged; });
}

}  // namespace trainer::results
