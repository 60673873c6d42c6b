#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "config/config.h"
#include "hooks/hooks.h"
#include "hooks/metric_window.h"
#include "http/server.h"

namespace trainer::hooks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWindowSeconds = 1;  // of the means of the loss and the speed
constexpr double kFileSeconds = 5;    // between two writes of the file

std::string print_number(double number) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

// Writes the text format, version 0.0.4.
class Exposition {
 public:
  // Begins a metric, whose samples follow.
  Exposition& begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = concat("trainer_", name);
    text_ += concat("# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
    return *this;
  }
  // `labels` is "" or "{...}", with values that need no escape.
  void add(double value, std::string_view labels = "", std::string_view suffix = "") {
    text_ += concat(name_, suffix, labels, " ", print_number(value), "\n");
  }
  const std::string& text() const { return text_; }

 private:
  std::string name_, text_;
};

std::string make_label(std::size_t rank) { return concat("{rank=\"", rank, "\"}"); }

class PrometheusHook final : public Hook {
 public:
  PrometheusHook(const config::Config& config, PrometheusOptions options)
      : target_(config::parse_prometheus(config.run.prometheus).value()),
        max_stall_(static_cast<std::int64_t>(config.parallel.timeout.count * 1000)),
        options_(std::move(options)) {}

  std::string name() const override { return "prometheus"; }

  void on_start(const RunInfo& info) override {
    planned_steps_ = info.total_steps;
    step_ = info.first_step;
    if (!target_.file.empty()) return write_file();
    try {
      server_.emplace(target_.host, target_.port,
                      [this](std::string_view path) { return answer(path); });
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }

  Request on_step(const StepRecord& p) override {
    {
      const std::lock_guard lock(mutex_);
      add_step(p);
    }
    if (!target_.file.empty() && p.elapsed - written_ >= kFileSeconds) {
      written_ = p.elapsed;
      write_file();
    }
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    const std::lock_guard lock(mutex_);
    for (const auto& [metric, value] : engine::named_metrics(e.metrics)) {
      evaluations_[concat("{split=\"", to_string(e.split), "\",metric=\"", metric, "\"}")] = value;
    }
    return Request::kContinue;
  }

  void on_checkpoint(const Path&) override {
    const std::lock_guard lock(mutex_);
    saved_ = Clock::now();
  }

  void on_finish(const Finish&) override {
    if (!target_.file.empty()) write_file();
  }

 private:
  void add_step(const StepRecord& p) {
    step_ = p.step;
    steps_ += p.steps;
    const engine::RankTimes own = engine::rank_times(p.step_seconds, p.wait_seconds, {});
    times_.add(p.ranks.empty() ? std::span(&own, 1) : p.ranks);
    window_.add(p);
    if (loss_ && p.elapsed - window_begin_ < kWindowSeconds) return;
    loss_ = window_.loss();
    speed_ = window_.images_per_second();
    window_ = {};
    window_begin_ = p.elapsed;
  }

  std::string print_metrics() const {
    const std::lock_guard lock(mutex_);
    Exposition out;
    const auto add = [&](const char* name, const char* type, const char* help, auto value) {
      out.begin(name, type, help).add(static_cast<double>(value));
    };
    add("steps_total", "counter", "Steps of this process.", steps_);
    add("step", "gauge", "Steps of the run, those of earlier sessions included.", step_);
    add("planned_steps", "gauge", "The step at which the run ends.", planned_steps_);
    const auto steps = static_cast<double>(times_.steps());
    out.begin("step_duration_seconds", "summary", "Time of the steps of a rank.");
    for (std::size_t i = 0; i < times_.ranks(); ++i) {
      out.add(times_.mean_times(i).total() * steps, make_label(i), "_sum");
      out.add(steps, make_label(i), "_count");
    }
    out.begin("input_wait_seconds_total", "counter", "Their part in which it waited for data.");
    for (std::size_t i = 0; i < times_.ranks(); ++i) {
      out.add(times_.mean_times(i)[engine::StepPhase::kDataWait] * steps, make_label(i));
    }
    if (loss_) {
      add("images_per_second", "gauge", "Images of all ranks, over about a second.", speed_);
      add("loss", "gauge", "The mean loss in training, over about a second.", *loss_);
    }
    if (saved_) {
      const std::chrono::duration<double> age = Clock::now() - *saved_;
      add("checkpoint_age_seconds", "gauge", "Time since the last checkpoint.", age.count());
    }
    if (!evaluations_.empty()) out.begin("evaluation", "gauge", "The last evaluation of a split.");
    for (const auto& [labels, value] : evaluations_) out.add(value, labels);
    return out.text();
  }

  // Called by the server's thread.
  http::Page answer(std::string_view path) const {
    if (path == "/metrics") return {200, print_metrics()};
    if (path != "/healthz") return {404, "the pages are /metrics and /healthz\n"};
    const auto stall = options_.progress.stalled_for();
    if (stall < max_stall_) return {200, "ok\n"};
    return {503, concat("no progress for ", static_cast<double>(stall.count()) / 1000, " s\n")};
  }

  void write_file() {
    try {
      write_file_atomic(target_.file, print_metrics());
    } catch (const std::exception& error) {
      warn(error.what());
    }
  }

  void warn(const std::string& text) {
    if (options_.warn && !has_warned_) options_.warn(concat("run.prometheus: ", text));
    has_warned_ = true;
  }

  const config::PrometheusTarget target_;
  const std::chrono::milliseconds max_stall_;
  PrometheusOptions options_;
  bool has_warned_ = false;
  double written_ = 0;  // StepRecord::elapsed

  mutable std::mutex mutex_;  // guards the members up to server_
  std::int64_t planned_steps_ = 0, step_ = 0, steps_ = 0;
  engine::StepTimes times_;
  MetricWindow window_;
  double window_begin_ = 0;
  std::optional<double> loss_;
  double speed_ = 0;
  std::optional<Clock::time_point> saved_;
  std::map<std::string, double> evaluations_;  // by labels

  std::optional<http::Server> server_;  // its thread uses the members above
};

}  // namespace

std::unique_ptr<Hook> make_prometheus_hook(const config::Config& config,
                                           PrometheusOptions options) {
  return std::make_unique<PrometheusHook>(config, std::move(options));
}

}  // namespace trainer::hooks
