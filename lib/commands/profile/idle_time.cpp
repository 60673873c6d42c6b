#include "commands/profile/idle_time.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace trainer::commands {
namespace {

using Clock = ProfileTimeline::Clock;
using Intervals = std::vector<std::pair<Clock::time_point, Clock::time_point>>;

// Sorted and without overlaps.
Intervals merged(Intervals all) {
  std::ranges::sort(all);
  Intervals result;
  for (const auto& [start, end] : all) {
    if (!result.empty() && start <= result.back().second) {
      result.back().second = std::max(result.back().second, end);
    } else {
      result.emplace_back(start, end);
    }
  }
  return result;
}

// The seconds that lie in both; both are merged.
double common_seconds(const Intervals& a, const Intervals& b) {
  Clock::duration sum{};
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Clock::time_point start = std::max(a[i].first, b[j].first);
    const Clock::time_point end = std::min(a[i].second, b[j].second);
    if (start < end) sum += end - start;
    (a[i].second < b[j].second ? i : j) += 1;
  }
  return std::chrono::duration<double>(sum).count();
}

}  // namespace

IdleTime idle_time(const std::vector<backend::WorkRecord>& rank,
                   const std::vector<ProfileTimeline::Step>& steps) {
  std::map<int, Intervals> threads;
  Intervals any, in_steps;
  for (const backend::WorkRecord& record : rank) {
    if (record.thread == backend::kReductionThread) continue;
    threads[record.thread].emplace_back(record.start, record.end);
    any.emplace_back(record.start, record.end);
  }
  for (const ProfileTimeline::Step& step : steps) in_steps.emplace_back(step.got_batch, step.end);
  in_steps = merged(std::move(in_steps));
  const double whole = common_seconds(in_steps, in_steps);
  const double busy = common_seconds(merged(std::move(any)), in_steps);
  IdleTime idle;
  for (auto& [thread, own] : threads) {
    idle.waiting += busy - common_seconds(merged(std::move(own)), in_steps);
    idle.outside += whole - busy;
  }
  return idle;
}

}  // namespace trainer::commands
