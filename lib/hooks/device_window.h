// Measures the devices of a run between the lines of a hook.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooks/hooks.h"

namespace trainer::hooks {

class DeviceWindow {
 public:
  // Starts the first interval.
  void start(const RunInfo& info) {
    totals_ = info.device_totals;
    if (totals_) before_ = totals_();
    gaps_ = info.gaps;
    if (gaps_) gaps_before_ = gaps_();
  }
  // Returns the use of the devices since start() or the last call; empty where they are not
  // measured.
  std::vector<engine::DeviceUse> take() {
    if (!totals_) return {};
    std::vector<engine::DeviceTotals> now = totals_();
    std::vector<engine::DeviceUse> uses;
    for (std::size_t i = 0; i < now.size(); ++i) uses.push_back(now[i].since(before_[i]));
    before_ = std::move(now);
    return uses;
  }
  bool has_gaps() const { return gaps_ != nullptr; }
  // Returns the mean gap between steps since start() or the last call, in seconds; nothing if there
  // was no gap.
  std::optional<double> take_gap() {
    if (!gaps_) return std::nullopt;
    const engine::Gaps now = gaps_();
    const engine::Gaps before = std::exchange(gaps_before_, now);
    if (now.count == before.count) return std::nullopt;
    return (now.seconds - before.seconds) / static_cast<double>(now.count - before.count);
  }
  // Returns the names of the devices: "gpu0", ...
  std::vector<std::string> devices() const {
    std::vector<std::string> names;
    for (const engine::DeviceTotals& one : before_) names.push_back(one.device());
    return names;
  }

 private:
  std::function<std::vector<engine::DeviceTotals>()> totals_;
  std::vector<engine::DeviceTotals> before_;
  std::function<engine::Gaps()> gaps_;
  engine::Gaps gaps_before_;
};

}  // namespace trainer::hooks
