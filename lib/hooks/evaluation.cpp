#include <ctime>

#include "hooks/hooks.h"

namespace trainer::hooks {
namespace {

std::string formatted(std::chrono::system_clock::time_point time, const char* format,
                      std::tm* (*parts_of)(const std::time_t*, std::tm*)) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  parts_of(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

}  // namespace

std::string utc_time(std::chrono::system_clock::time_point time) {
  using std::chrono::floor, std::chrono::milliseconds, std::chrono::seconds;
  const auto whole = floor<seconds>(time);
  const auto rest = std::chrono::duration_cast<milliseconds>(time - whole).count();
  const std::string digits = std::to_string(1000 + rest).substr(1);
  return formatted(whole, "%Y-%m-%dT%H:%M:%S.", ::gmtime_r) + digits + "Z";
}

std::string local_time(std::chrono::system_clock::time_point time) {
  using std::chrono::floor, std::chrono::seconds;
  return formatted(floor<seconds>(time), "%Y-%m-%d %H:%M:%S %z", ::localtime_r);
}

std::optional<double> find_metric(const Evaluation& evaluation, const std::string& name) {
  const std::string prefix = std::string(to_string(evaluation.split)) + "/";
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string metric = name.substr(prefix.size());
  // The accuracy is NaN for samples without classes.
  if (metric == "accuracy") return evaluation.metrics.accuracy;
  for (const auto& [key, value] : engine::named_metrics(evaluation.metrics)) {
    if (key == metric) return value;
  }
  return std::nullopt;
}

bool larger_is_better(const std::string& metric) { return !metric.ends_with("loss"); }

}  // namespace trainer::hooks
