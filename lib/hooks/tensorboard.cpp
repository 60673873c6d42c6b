#include <unistd.h>

#include <chrono>
#include <cmath>

#include "base/process.h"
#include "hooks/confusion_image.h"
#include "hooks/device_window.h"
#include "hooks/event_file.h"
#include "hooks/hooks.h"
#include "hooks/interval.h"
#include "hooks/metric_window.h"

namespace trainer::hooks {
namespace {

constexpr std::int64_t kMostClasses = 1000;   // beyond, nobody can read the picture
constexpr std::int64_t kDensePictures = 256;  // later ones are drawn further and further apart

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class TensorBoardHook : public Hook {
 public:
  explicit TensorBoardHook(const config::Duration& summary_every) : summary_every_(summary_every) {}

  std::string name() const override { return "tensorboard"; }

  void on_start(const RunInfo& info) override {
    total_steps_ = info.total_steps;
    has_servers_ = !info.servers.empty();
    devices_.start(info);
    interval_.emplace(summary_every_, info.steps_per_epoch);
    const Path folder = info.dir / "tensorboard";
    std::filesystem::create_directories(folder);
    const double now = seconds_since_1970();
    file_.emplace(folder / concat("events.out.tfevents.", static_cast<std::int64_t>(now), ".",
                                  host_name(), ".", ::getpid()),
                  now);
    // TensorBoard reads the files of a folder in the order of their names.
    file_->session_start(info.first_step + 1, now);
  }

  Request on_step(const Progress& p) override {
    window_.add(p);
    // Also at the end, but not where a run is interrupted: its rows are of the same steps as those
    // of a whole run. The first row after a resume averages the steps since then.
    if (interval_->due(p.step, p.elapsed) || p.step == total_steps_) write_window();
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    const std::string split = to_string(e.split);
    scalar(split + "/loss", e.step, e.metrics.loss);
    scalar(split + "/accuracy", e.step, e.metrics.accuracy);
    for (const auto& [key, value] : engine::named_metrics(e.metrics)) {
      if (key != "loss" && key != "accuracy") scalar(concat(split, "/", key), e.step, value);
    }
    ++evaluations_;
    const bool draws = evaluations_ % row_spacing(evaluations_, kDensePictures) == 0;
    if (draws && e.metrics.classes > 0 && e.metrics.classes <= kMostClasses) {
      const Picture picture = draw_confusion(e.metrics);
      file_->image(split + "/confusion_matrix", e.step, seconds_since_1970(), picture.width,
                   picture.height, picture.png);
    }
    return Request::kContinue;
  }

 private:
  void write_window() {
    const std::int64_t step = window_.last().step;
    scalar("train/loss", step, window_.loss());
    scalar("train/accuracy", step, window_.accuracy());
    scalar("learning_rate", step, window_.last().learning_rate);
    scalar("images_per_second", step, window_.images_per_second());
    scalar("global_step/sec", step, window_.steps_per_second());
    scalar("wait_share", step, window_.wait_share());
    if (has_servers_) {
      scalar("staleness", step, window_.staleness());
      scalar("staleness_max", step, static_cast<double>(window_.staleness_max()));
    }
    write_times(step);
    if (const auto gap = devices_.take_gap()) scalar("gap_seconds", step, *gap);
    for (const engine::DeviceUse& use : devices_.take()) write_device(step, use);
    window_ = {};
  }

  // The medians over the ranks; of several ranks, the ends too.
  void write_times(std::int64_t step) {
    const engine::StepTimes& times = window_.times();
    if (times.empty()) return;
    for (const engine::StepPhase phase : engine::kAllStepPhases) {
      const engine::StepTimes::Spread spread = times.spread(phase);
      const std::string tag = "step_time/" + engine::column_of(phase);
      scalar(tag, step, spread.median);
      if (times.ranks() == 1) continue;
      scalar(tag + "_min", step, spread.min);
      scalar(tag + "_max", step, spread.max);
    }
    if (times.ranks() == 1) return;
    const auto straggler = times.straggler();
    scalar("step_time/straggler", step, straggler ? static_cast<double>(straggler->rank) : -1);
  }

  void write_device(std::int64_t step, const engine::DeviceUse& use) {
    const auto write = [&](const char* name, const std::optional<double>& value) {
      if (value) scalar(concat(use.device, "/", name), step, *value);
    };
    for (std::size_t i = 0; i < use.means.size(); ++i) {
      write(engine::kDeviceMetrics[i].name, use.means[i]);
    }
    write(engine::kDeviceEnergy, use.energy_joules);
  }

  // Nothing for an accuracy where there is none.
  void scalar(const std::string& tag, std::int64_t step, double value) {
    if (tag.ends_with("/accuracy") && std::isnan(value)) return;
    file_->scalar(tag, step, seconds_since_1970(), static_cast<float>(value));
  }

  config::Duration summary_every_;
  std::int64_t total_steps_ = 0;
  std::int64_t evaluations_ = 0;  // of this process
  bool has_servers_ = false;
  std::optional<RowInterval> interval_;
  std::optional<EventFile> file_;
  MetricWindow window_;
  DeviceWindow devices_;
};

}  // namespace

std::unique_ptr<Hook> make_tensorboard_hook(const config::Duration& summary_every) {
  return std::make_unique<TensorBoardHook>(summary_every);
}

}  // namespace trainer::hooks
