#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/formats/table.h"
#include "base/text.h"
#include "hooks/hooks.h"
#include "hooks/interval.h"
#include "hooks/metric_window.h"

namespace trainer::hooks {
namespace {

// Control sequences of the terminal (ECMA-48, and DEC's private mode 7) that make it cut a line
// that is too long instead of wrapping it, because a wrapped line cannot be rewritten in place.
constexpr const char* kNoWrap = "\x1b[?7l";
constexpr const char* kWrap = "\x1b[?7h";
constexpr const char* kClearRest = "\x1b[K";

constexpr double kRefresh = 0.1;  // seconds between two states of a terminal's line

// Formats seconds: 75 -> "1:15", 3700 -> "1:01:40".
std::string clock_time(double seconds) {
  const auto s = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds)));
  const auto two = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (s >= 3600) return concat(s / 3600, ":", two(s / 60 % 60), ":", two(s % 60));
  return concat(s / 60, ":", two(s % 60));
}

// Formats a learning rate with at most four digits: "0.001", "1e-05".
std::string rate(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// Formats a rate: "12.5", "0.083", "1,240".
std::string speed(double value) {
  if (value >= 100) return grouped(std::llround(value));
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

constexpr int kMinBar = 5, kMaxBar = 20;  // columns between the brackets
constexpr int kDefaultColumns = 80;

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  return "[" + std::string(static_cast<std::size_t>(full), '=') +
         std::string(static_cast<std::size_t>(width - full), ' ') + "]";
}

// Formats a field: "acc 0.5000", "3,200 img/s".
std::string brief(std::string text) {
  for (const auto& [word, letters] : {std::pair{"accuracy", "acc"}, {"images/s", "img/s"}}) {
    if (const std::size_t at = text.find(word); at != std::string::npos) {
      text.replace(at, std::strlen(word), letters);
    }
  }
  return text;
}

// A field of the terminal's line, in full and abbreviated.
struct Field {
  std::string text, brief;
};

// Fits a line into fewer columns than the terminal has. Abbreviates the fields if they do not fit,
// then drops fields from the right, then the bar, which takes the columns that are left. What was
// abbreviated or dropped stays so until the width changes, so that fields do not come and go with
// the digits of the numbers.
class TerminalLine {
 public:
  std::string fit(const std::string& head, double share, const std::vector<Field>& fields,
                  int columns) {
    if (columns != std::exchange(columns_, columns)) {
      shown_ = fields.size();
      is_brief_ = false;
      has_bar_ = true;
    }
    shown_ = std::min(shown_, fields.size());
    is_brief_ = is_brief_ || room(head, fields, std::min(shown_, kDefaultFields)) < kMinBar;
    while (shown_ > 0 && room(head, fields, shown_) < kMinBar) --shown_;
    const int left = room(head, fields, shown_);
    has_bar_ = has_bar_ && left >= kMinBar;
    std::string line = head;
    if (has_bar_) line += ' ' + bar(share, std::min(left, kMaxBar));
    for (std::size_t i = 0; i < shown_; ++i) line += "  " + field_text(fields[i]);
    return line.substr(0, static_cast<std::size_t>(std::max(columns - 1, 1)));
  }

 private:
  static constexpr std::size_t kDefaultFields = 4;  // up to images/s, so that 80 columns show it

  const std::string& field_text(const Field& field) const {
    return is_brief_ ? field.brief : field.text;
  }
  // Returns the columns that are left for the bar beside `count` fields.
  int room(const std::string& head, const std::vector<Field>& fields, std::size_t count) const {
    constexpr int kBrackets = 3;  // the brackets and the blank before them
    std::size_t sum = head.size();
    for (std::size_t i = 0; i < count; ++i) sum += 2 + field_text(fields[i]).size();
    return columns_ - 1 - static_cast<int>(sum) - kBrackets;
  }

  int columns_ = 0;
  std::size_t shown_ = 0;  // fields at this width
  bool is_brief_ = false, has_bar_ = true;
};

// Returns "gpu0: utilization 87 %, memory 12.3 GiB, 310 W": means over the run of what the device
// reports.
std::string device_line(const engine::DeviceUse& use) {
  struct Part {
    const char* before;
    double factor;
    int decimals;
    const char* after;
  };
  static constexpr std::array<Part, engine::kDeviceMetrics.size()> kParts{{
      {"utilization ", 100, 0, " %"},
      {"memory accessed ", 100, 0, " % of the time"},
      {"memory ", 1.0 / (1 << 30), 1, " GiB"},
      {"", 1, 0, " W"},
      {"", 1, 0, " C"},
      {"SM clock ", 1, 0, " MHz"},
      {"memory clock ", 1, 0, " MHz"},
  }};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < use.means.size(); ++i) {
    if (!use.means[i]) continue;
    const Part& part = kParts[i];
    parts.push_back(
        concat(part.before, fixed(*use.means[i] * part.factor, part.decimals), part.after));
  }
  if (use.energy_joules) parts.push_back(fixed(*use.energy_joules, 0) + " J");
  return use.device + ": " + (parts.empty() ? "no telemetry" : join(parts, ", "));
}

class ProgressHook : public Hook {
 public:
  ProgressHook(std::ostream& out, bool is_tty, bool quiet, const config::Duration& log_every,
               TerminalFacts facts)
      : out_(out),
        is_tty_(is_tty),
        quiet_(quiet),
        log_every_(log_every),
        facts_(std::move(facts)) {}

  std::string name() const override { return "progress"; }

  void on_start(const RunInfo& info) override {
    info_ = info;
    folder_ = printable(info.dir.string());
    interval_.emplace(log_every_, info.steps_per_epoch);
    if (quiet_) return;
    out_ << printable(info.name) << ": " << grouped(info.total_steps) << " steps of "
         << info.global_batch << " samples, " << grouped(info.steps_per_epoch)
         << " an epoch, run folder " << folder_ << '\n';
    if (!info.servers.empty()) {
      out_ << info.servers << '\n';
    } else if (info.replicas > 1) {
      out_ << info.replicas << " replicas";
      if (!info.scaled_rate.empty()) {
        out_ << ", the optimizer's learning rate " << info.scaled_rate;
      }
      out_ << '\n';
    }
    if (info.repetitions > 1) {
      out_ << "each goes through all samples in an order of its own: an epoch is "
           << info.repetitions << " times the training split\n";
    }
    if (!info.weights.empty()) out_ << "weights " << printable(info.weights) << '\n';
    if (info.first_step > 0) out_ << "resumed after step " << info.first_step << '\n';
    out_.flush();
  }

  Request on_step(const Progress& p) override {
    window_.add(p);
    // The average follows a change of speed within some twenty steps. It leaves out the first step,
    // which is slower than all others.
    const bool settled = p.step > info_.first_step + 2;
    step_seconds_ = settled ? 0.95 * step_seconds_ + 0.05 * p.step_seconds : p.step_seconds;
    const bool due = interval_->due(p.step, p.elapsed);
    if (quiet_) return Request::kContinue;
    if (is_tty_ ? p.elapsed - shown_at_ >= kRefresh : due) show();
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    close_line();
    const engine::Metrics& m = e.metrics;
    out_ << stamp() << to_string(e.split) << ": loss " << fixed(m.loss, 4);
    if (m.classes > 0) {
      out_ << "  accuracy " << fixed(m.accuracy, 4) << " (95 % interval "
           << fixed(m.accuracy_interval.low, 4) << "-" << fixed(m.accuracy_interval.high, 4) << ")";
    }
    if (m.top_k > 0) out_ << "  top " << m.top_k << " " << fixed(m.top_k_accuracy, 4);
    out_ << "  step " << e.step << "  epoch " << rate(e.epoch) << "  " << fixed(e.seconds, 1)
         << " s\n";
    flush();
    return Request::kContinue;
  }

  // Writes two closing lines, which scripts may read.
  void on_finish(const Finish& finish) override {
    close_line();
    if (finish.reason != FinishReason::kDone) {
      out_ << to_string(finish.reason) << " after step " << finish.steps;
      if (finish.reason == FinishReason::kInterrupted) {
        out_ << "; a checkpoint was saved: give the same command with --resume to go on";
      }
      out_ << '\n';
    }
    const bool workers = !info_.servers.empty() && info_.replicas > 1;
    const std::string counted =
        " with " + (workers ? concat(info_.replicas, " workers") : info_.devices);
    if (finish.skipped_updates > 0) {
      out_ << finish.skipped_updates
           << " updates left out: a float16 gradient overflowed, and the loss scale was halved\n";
    }
    if (const auto& staleness = finish.staleness) {
      out_ << "staleness of gradients: mean " << fixed(staleness->mean, 2) << ", most "
           << staleness->max << ", " << staleness->rejected << " rejected\n";
    }
    if (!finish.input.empty() && !quiet_) out_ << "training data: " << finish.input << '\n';
    if (!finish.times.empty() && !quiet_) {
      out_ << "time of a step: " << engine::describe(finish.times) << '\n';
      if (const auto straggler = finish.times.straggler()) {
        out_ << engine::describe(*straggler, info_.ranks) << '\n';
      }
    }
    if (finish.gap_seconds) {
      out_ << "gap between steps on a device: " << fixed(1e3 * *finish.gap_seconds, 3) << " ms\n";
    }
    for (const engine::DeviceUse& use : finish.devices) out_ << device_line(use) << '\n';
    if (finish.energy_joules) {
      out_ << "energy: " << fixed(*finish.energy_joules, 0) << " J";
      if (finish.joules_per_image) out_ << ", " << rate(*finish.joules_per_image) << " J/image";
      out_ << '\n';
    }
    if (const auto& best = finish.best) {
      out_ << "best " << best->metric << " " << fixed(best->value, 4) << " after epoch "
           << rate(best->epoch) << " (step " << best->step << ")"
           << (best->restored ? ", whose parameters are restored" : "") << ", in "
           << printable(best->path.string()) << '\n';
    }
    if (!quiet_) out_ << "wall time: " << fixed(finish.wall_seconds, 3) << " seconds\n";
    out_ << "total time" << counted << ": " << fixed(finish.step_seconds, 3) << " seconds\n";
    if (finish.images_per_second) {
      out_ << fixed(*finish.images_per_second, 1) << " images/second" << counted << '\n';
    }
    if (!quiet_ && finish.reason != FinishReason::kInterrupted) {
      out_ << "next: trainer evaluate " << folder_ << ", or trainer predict " << folder_
           << " IMAGE...\n";
    }
    flush();
  }

 private:
  // The position in the run and in its epoch, counted from 1.
  struct Place {
    std::int64_t epoch, epochs, step, steps;
  };
  Place place() const {
    const std::int64_t per_epoch = std::max<std::int64_t>(info_.steps_per_epoch, 1);
    const auto to_epoch = [&](std::int64_t step) { return (step + per_epoch - 1) / per_epoch; };
    const std::int64_t step = window_.last().step, epoch = to_epoch(step);
    return {epoch, to_epoch(info_.total_steps), step - (epoch - 1) * per_epoch,
            std::min(per_epoch, info_.total_steps - (epoch - 1) * per_epoch)};
  }

  std::string accuracy() const {
    return std::isnan(window_.accuracy()) ? "" : "accuracy " + fixed(window_.accuracy(), 4);
  }
  std::string eta() const {
    const std::int64_t left = info_.total_steps - window_.last().step;
    return "eta " + clock_time(static_cast<double>(left) * step_seconds_);
  }
  std::string loss() const { return "loss " + fixed(window_.loss(), 4); }
  std::string images() const {
    return grouped(std::llround(window_.images_per_second())) + " images/s";
  }
  std::string learning_rate() const { return "lr " + rate(window_.last().learning_rate); }
  std::string steps() const { return speed(window_.steps_per_second()) + " steps/s"; }
  std::string wait() const { return concat("wait ", fixed(100 * window_.wait_share(), 0), "%"); }

  // Returns a line of a log: "epoch 1/3  step 4/20  loss 0.2500 ...".
  std::string log_line() const {
    const Place at = place();
    std::vector<std::string> fields{concat("epoch ", at.epoch, "/", at.epochs),
                                    concat("step ", window_.last().step, "/", info_.total_steps),
                                    loss(),
                                    accuracy(),
                                    learning_rate(),
                                    images(),
                                    steps(),
                                    wait(),
                                    eta()};
    std::erase(fields, "");
    return join(fields, "  ");
  }

  // Returns the line of a terminal: "epoch 1/3  4/8 [=====     ]  eta 0:01 ...".
  std::string terminal_line() {
    const Place at = place();
    const std::string head =
        concat("epoch ", at.epoch, "/", at.epochs, "  ", at.step, "/", at.steps);
    // The time left is not shown at first: the first steps are slow, so that it would be wrong.
    const bool is_settled = at.step + (at.epoch - 1) * info_.steps_per_epoch > info_.first_step + 2;
    std::vector<Field> fields;
    for (const std::string& text : {is_settled ? eta() : "eta -:--", loss(), accuracy(), images(),
                                    learning_rate(), wait(), steps()}) {
      if (!text.empty()) fields.push_back({text, brief(text)});
    }
    const double share = static_cast<double>(at.step) / static_cast<double>(at.steps);
    return line_.fit(head, share, fields, facts_.columns ? facts_.columns() : kDefaultColumns);
  }

  // Returns the time at the start of a line that is not rewritten in place.
  std::string stamp() const {
    return is_tty_ || quiet_ || !facts_.clock ? "" : local_time(facts_.clock()) + "  ";
  }

  void show() {
    shown_at_ = window_.last().elapsed;
    if (is_tty_) {
      out_ << '\r' << kNoWrap << terminal_line() << kWrap << kClearRest;
      open_line_ = true;
    } else {
      out_ << stamp() << log_line() << '\n';
    }
    flush();
    window_ = {};
  }

  void flush() {
    out_.flush();
    if (!out_ && (errno == EPIPE || errno == EIO) && facts_.output_closed)
      std::exchange(facts_.output_closed, {})();
  }

  // Ends the terminal's line, which stays as it is.
  void close_line() {
    if (is_tty_ && !quiet_ && !window_.empty()) show();
    if (open_line_) out_ << '\n';
    open_line_ = false;
  }

  std::ostream& out_;
  bool is_tty_, quiet_;
  config::Duration log_every_;
  TerminalFacts facts_;
  std::optional<Interval> interval_;
  RunInfo info_;
  std::string folder_;  // of the run, as it is printed
  MetricWindow window_;
  double step_seconds_ = 0;  // moving average
  double shown_at_ = -kRefresh;
  TerminalLine line_;
  bool open_line_ = false;
};

}  // namespace

std::unique_ptr<Hook> make_progress_hook(std::ostream& out, bool is_tty, bool quiet,
                                         const config::Duration& log_every, TerminalFacts facts) {
  return std::make_unique<ProgressHook>(out, is_tty, quiet, log_every, std::move(facts));
}

}  // namespace trainer::hooks
