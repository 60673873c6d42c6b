#include "base/formats/json.h"

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "hooks/formats/best_json.h"
#include "hooks/formats/speed_json.h"
#include "hooks/hooks.h"
#include "hooks/input_throughput.h"
#include "hooks/interval.h"
#include "hooks/metric_window.h"
#include "results/evaluation/metrics_json.h"

namespace trainer::hooks {
namespace {

using Json = nlohmann::ordered_json;

Json device_json(const engine::DeviceUse& use) {
  Json json{{"device", use.device}};
  for (std::size_t i = 0; i < use.means.size(); ++i) {
    if (use.means[i]) json[engine::kDeviceMetrics[i].name] = rounded(*use.means[i], 9);
  }
  if (use.energy_joules) json[engine::kDeviceEnergy] = *use.energy_joules;
  return json;
}

class JsonHook : public Hook {
 public:
  JsonHook(std::ostream& out, const config::Duration& log_every, WallClock clock,
           std::function<void()> output_closed)
      : out_(out),
        log_every_(log_every),
        clock_(std::move(clock)),
        output_closed_(std::move(output_closed)) {}

  std::string name() const override { return "json"; }

  void on_start(const RunInfo& info) override {
    info_ = info;
    step_ = info.first_step;
    interval_.emplace(log_every_, info.steps_per_epoch);
    Json line{{"event", "start"},
              {"run", info.dir.string()},
              {"total_steps", info.total_steps},
              {"steps_per_epoch", info.steps_per_epoch},
              {"first_step", info.first_step},
              {"global_batch", info.global_batch},
              {"replicas", info.replicas},
              {"passes_per_epoch", info.passes_per_epoch}};
    if (!info.weights.empty()) line["weights"] = info.weights;
    write(line);
  }

  Request on_step(const Progress& p) override {
    step_ = p.step;
    window_.add(p);
    throughput_.add(p);
    // The first step always has a line, because it shows how long the start took.
    const bool due = interval_->due(p.step, p.elapsed);
    if (!due && p.step != info_.first_step + 1) return Request::kContinue;
    Json line{{"event", "step"},
              {"step", p.step},
              {"epoch", p.epoch},
              {"loss", rounded(window_.loss(), 9)},
              {"accuracy", rounded(window_.accuracy(), 9)},
              {"learning_rate", rounded(p.learning_rate, 7)},
              {"images_per_second", window_.images_per_second()},
              {"steps_per_second", window_.steps_per_second()},
              {"wait_share", window_.wait_share()},
              {"elapsed", p.elapsed}};
    if (!info_.servers.empty()) {
      line["staleness"] = window_.staleness();
      line["staleness_max"] = window_.staleness_max();
    }
    write(line);
    if (due) window_ = {};
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    Json line{{"event", "evaluation"},
              {"split", to_string(e.split)},
              {"step", e.step},
              {"epoch", e.epoch},
              {"loss", e.metrics.loss},
              {"accuracy", e.metrics.accuracy},
              {"accuracy_low", e.metrics.accuracy_interval.low},
              {"accuracy_high", e.metrics.accuracy_interval.high}};
    if (e.metrics.top_k > 0) {
      line["top_k"] = e.metrics.top_k;
      line["top_k_accuracy"] = e.metrics.top_k_accuracy;
    }
    for (const auto& [key, value] : engine::named_metrics(e.metrics)) {
      if (!line.contains(key)) line[key] = value;
    }
    line["count"] = e.metrics.count;
    line["seconds"] = e.seconds;
    write(line);
    return Request::kContinue;
  }

  void on_checkpoint(const Path& path) override {
    write({{"event", "checkpoint"}, {"path", path.string()}, {"step", step_}});
  }

  void on_finish(const Finish& finish) override {
    Json metrics = Json::object();
    for (const Evaluation& e : finish.evaluations) {
      metrics[to_string(e.split)] = {
          {"loss", e.metrics.loss}, {"accuracy", e.metrics.accuracy}, {"count", e.metrics.count}};
    }
    Json line{{"event", "finished"},
              {"run", info_.dir.string()},
              {"steps", finish.steps},
              {"total_seconds", finish.step_seconds},
              {"wall_seconds", finish.wall_seconds},
              {"images_per_second", nullptr},
              {"reason", to_string(finish.reason)},
              {"metrics", metrics},
              {"parameters_sha256", finish.parameters_sha256}};
    if (finish.images_per_second) line["images_per_second"] = *finish.images_per_second;
    line.update(throughput_json(throughput_));
    if (const auto& best = finish.best) {
      line["best"] = best_json(*best);
      line["best"]["path"] = best->path.string();
    }
    if (finish.skipped_updates > 0) line["skipped_updates"] = finish.skipped_updates;
    if (const auto& staleness = finish.staleness) {
      line["staleness"] = {
          {"mean", staleness->mean}, {"max", staleness->max}, {"refused", staleness->rejected}};
    }
    if (!finish.input.empty()) line["input"] = finish.input;
    if (!finish.times.empty()) line["step_times"] = step_times_json(finish.times, info_.ranks);
    if (finish.gap_seconds) line["gap_seconds"] = *finish.gap_seconds;
    for (const engine::DeviceUse& use : finish.devices) line["devices"].push_back(device_json(use));
    if (finish.energy_joules) line["energy_joules"] = *finish.energy_joules;
    if (finish.joules_per_image) line["joules_per_image"] = *finish.joules_per_image;
    write(line);
  }

 private:
  void write(Json event) {
    if (clock_) event["time"] = utc_time(clock_());
    write_event(out_, event);
    if (!out_ && (errno == EPIPE || errno == EIO) && output_closed_)
      std::exchange(output_closed_, {})();
  }

  std::ostream& out_;
  config::Duration log_every_;
  WallClock clock_;
  std::function<void()> output_closed_;
  std::optional<Interval> interval_;
  RunInfo info_;
  std::int64_t step_ = 0;
  MetricWindow window_;
  InputThroughput throughput_;
};

}  // namespace

std::unique_ptr<Hook> make_json_hook(std::ostream& out, const config::Duration& log_every,
                                     WallClock clock, std::function<void()> output_closed) {
  return std::make_unique<JsonHook>(out, log_every, std::move(clock), std::move(output_closed));
}

}  // namespace trainer::hooks
