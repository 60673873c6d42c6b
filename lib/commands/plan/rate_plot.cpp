#include "commands/plan/rate_plot.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "commands/page/svg.h"
#include "optim/optim.h"
#include "train/schedule/stages.h"

namespace trainer::commands {
namespace {

// The size of the picture and the frame of the plot in it, in pixels.
constexpr double kWidth = 860, kHeight = 460;
constexpr double kLeft = 90, kTop = 60, kRight = kWidth - 30, kBottom = kHeight - 60;
constexpr std::int64_t kMaxPlotPoints = 4000;

std::string format_tick(double value) { return significant(value, 4); }
std::string pixel(double value) { return fixed(value, 3); }

struct Phase {
  std::string name;
  double begin, end;  // epochs
};

// Returns the phases of the schedule in order, up to the end of the training.
std::vector<Phase> list_phases(const config::Schedule& schedule, double epochs,
                               const optim::Length& length) {
  std::vector<Phase> phases;
  const auto add = [&](const char* name, double end) {
    const double begin = phases.empty() ? 0 : phases.back().end;
    if (end > begin && begin < epochs) phases.push_back({name, begin, std::min(end, epochs)});
  };
  if (const auto* ramp = std::get_if<config::RampUpSchedule>(&schedule.kind)) {
    add("warm-up", ramp->ramp_epochs);
    add("sustain", ramp->ramp_epochs + ramp->sustain_epochs);
    add(ramp->decay < 1 ? "decay" : "sustain", epochs);
    return phases;
  }
  if (schedule.warm_up) {
    add("warm-up", optim::to_steps(schedule.warm_up->over, length) / length.steps_per_epoch);
  }
  const bool constant = std::holds_alternative<config::ConstantSchedule>(schedule.kind);
  add(constant ? "constant" : "decay", epochs);
  return phases;
}

class RatePlot {
 public:
  RatePlot(const config::Config& config, const train::TrainingPlan& steps)
      : name_(config.name),
        steps_(steps),
        length_{static_cast<double>(steps.steps_per_epoch), steps.total_steps,
                static_cast<int>(steps.replicas)},
        rate_(train::staged_learning_rate(config, steps)),
        epochs_(std::max(steps.epoch(steps.total_steps), 1e-9)),
        phases_(list_phases(config.schedule, epochs_, length_)) {
    for (std::int64_t step = 0; step < steps.total_steps; ++step) {
      const double rate = rate_(step);
      if (rate > rate_(highest_)) highest_ = highest_end_ = step;
      // A plateau ends where the rate is no longer the highest, not where it is that again.
      if (rate == rate_(highest_) && step == highest_end_ + 1) highest_end_ = step;
      if (rate < rate_(lowest_)) lowest_ = step;
    }
    const double most = steps.total_steps > 0 ? rate_(highest_) : 0;
    rate_tick_ = tick_step(most > 0 ? most : 1, 5);
    top_rate_ = rate_tick_ * std::ceil((most > 0 ? most : 1) / rate_tick_ * 0.9999 + 0.05);
  }

  std::string svg() {
    out_ = concat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"",
                  kHeight, "\" viewBox=\"0 0 ", kWidth, ' ', kHeight,
                  "\" font-family=\"sans-serif\" font-size=\"12\">\n",
                  "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    text((kLeft + kRight) / 2, 26, "middle", "title", "Learning rate of " + name_,
         " font-size=\"17\"");
    text((kLeft + kRight) / 2, kHeight - 14, "middle", "x-label",
         concat("epoch (", steps_.steps_per_epoch, steps_.steps_per_epoch == 1 ? " step" : " steps",
                " each, ", steps_.total_steps, " in all)"));
    text(22, (kTop + kBottom) / 2, "middle", "y-label", "learning rate",
         concat(" transform=\"rotate(-90 22 ", pixel((kTop + kBottom) / 2), ")\""));
    draw_phases();
    draw_ticks();
    draw_curve();
    draw_notable();
    return out_ + "</svg>\n";
  }

 private:
  double to_x(double epoch) const { return kLeft + (kRight - kLeft) * epoch / epochs_; }
  double to_y(double rate) const { return kBottom - (kBottom - kTop) * rate / top_rate_; }

  void text(double x, double y, const char* anchor, const char* kind, const std::string& what,
            const std::string& more = "") {
    out_ += concat("<text class=\"", kind, "\" x=\"", pixel(x), "\" y=\"", pixel(y),
                   "\" text-anchor=\"", anchor, "\"", more, ">", escape_markup(what), "</text>\n");
  }
  void line(double x1, double y1, double x2, double y2, const char* colour) {
    out_ += concat("<line x1=\"", pixel(x1), "\" y1=\"", pixel(y1), "\" x2=\"", pixel(x2),
                   "\" y2=\"", pixel(y2), "\" stroke=\"", colour, "\"/>\n");
  }

  void draw_phases() {
    for (const Phase& phase : phases_) {
      const char* colour = phase.name == "warm-up" ? "#fdf1dc"
                           : phase.name == "decay" ? "#e8eef8"
                                                   : "#e6f2e6";
      const double left = to_x(phase.begin), width = to_x(phase.end) - left;
      out_ += concat("<rect class=\"phase\" x=\"", pixel(left), "\" y=\"", pixel(kTop),
                     "\" width=\"", pixel(width), "\" height=\"", pixel(kBottom - kTop),
                     "\" fill=\"", colour, "\"/>\n");
      text(left + width / 2, kTop - 8, "middle", "phase-name", phase.name, " fill=\"#555\"");
    }
  }

  void draw_ticks() {
    const double epoch_tick = tick_step(epochs_, 10);
    for (int i = 0; i * epoch_tick <= epochs_ * 1.0001; ++i) {
      const double x = to_x(i * epoch_tick);
      line(x, kTop, x, kBottom + 5, "#cccccc");
      text(x, kBottom + 20, "middle", "x-tick", format_tick(i * epoch_tick));
    }
    for (int i = 0; i * rate_tick_ <= top_rate_ * 1.0001; ++i) {
      const double y = to_y(i * rate_tick_);
      line(kLeft - 5, y, kRight, y, "#cccccc");
      text(kLeft - 9, y + 4, "end", "y-tick", format_tick(i * rate_tick_));
    }
    line(kLeft, kTop, kLeft, kBottom, "black");
    line(kLeft, kBottom, kRight, kBottom, "black");
  }

  void draw_curve() {
    out_ += "<polyline id=\"rate\" fill=\"none\" stroke=\"#1f5fbf\" stroke-width=\"2\" points=\"";
    const std::int64_t stride = (steps_.total_steps + kMaxPlotPoints - 1) / kMaxPlotPoints;
    for (std::int64_t step = 0; step < steps_.total_steps;
         step += std::max<std::int64_t>(stride, 1)) {
      out_ += concat(step == 0 ? "" : " ", pixel(to_x(steps_.epoch(step))), ',',
                     pixel(to_y(rate_(step))));
    }
    out_ += "\"/>\n";
  }

  void draw_notable() {
    std::vector<std::int64_t> notable{0, highest_, highest_end_, lowest_, steps_.total_steps - 1};
    std::ranges::sort(notable);
    double last_x = -1e9, last_y = 0;
    for (const std::int64_t step : notable) {
      if (step < 0 || step >= steps_.total_steps) continue;
      const double x = to_x(steps_.epoch(step)), y = to_y(rate_(step));
      // A label over another could not be read; the last step's is always wanted less.
      if (std::abs(x - last_x) < 60 && std::abs(y - last_y) < 16) continue;
      last_x = x;
      last_y = y;
      out_ += concat("<circle class=\"notable\" cx=\"", pixel(x), "\" cy=\"", pixel(y),
                     "\" r=\"4\" fill=\"#c0392b\"/>\n");
      const char* anchor = x > kRight - 60 ? "end" : x < kLeft + 40 ? "start" : "middle";
      text(x < kLeft + 40 ? x + 7 : x, y < kTop + 20 ? y + 18 : y - 9, anchor, "notable-rate",
           format_tick(rate_(step)),
           " fill=\"#c0392b\" font-weight=\"bold\" stroke=\"white\" stroke-width=\"3\" "
           "paint-order=\"stroke\"");
    }
  }

  std::string name_;
  const train::TrainingPlan& steps_;
  optim::Length length_;
  optim::LearningRate rate_;
  double epochs_;
  std::vector<Phase> phases_;
  std::int64_t highest_ = 0, highest_end_ = 0, lowest_ = 0;  // steps
  double rate_tick_ = 1, top_rate_ = 1;
  std::string out_;
};

}  // namespace

std::string rate_plot(const config::Config& config, const train::TrainingPlan& steps) {
  return RatePlot(config, steps).svg();
}

}  // namespace trainer::commands
