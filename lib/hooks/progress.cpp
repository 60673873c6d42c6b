#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ostream>
#include <utility>

#include "base/error.h"
#include "base/formats/duration.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "data/samples/loader.h"
#include "hooks/hooks.h"
#include "hooks/input_throughput.h"
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

// Formats a learning rate with at most four digits: "0.001", "1e-05".
std::string rate(double value) { return significant(value, 4); }

// Formats a rate: "12.5", "0.083", "1,240".
std::string speed(double value) {
  return value >= 100 ? grouped(std::llround(value)) : significant(value, 3);
}

constexpr int kMinBar = 5, kMaxBar = 20;  // columns between the brackets
constexpr int kDefaultColumns = 80;

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  return "[" + std::string(full, '=') + std::string(width - full, ' ') + "]";
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

// Pads `text` on the right to the longest text so far.
void pad_to(std::string& text, std::size_t& longest) {
  longest = std::max(longest, text.size());
  text.resize(longest, ' ');
}

// Fits a line into fewer columns than the terminal has. Abbreviates the fields if they do not fit,
// then drops fields from the right, then the bar, which takes the columns that are left. What was
// abbreviated or dropped stays so until the width changes, and a field keeps the width of its
// longest text, so that fields do not come, go or move with the digits of the numbers.
class TerminalLine {
 public:
  std::string fit(const std::string& head, double share, std::vector<Field> fields, int columns) {
    if (columns != std::exchange(columns_, columns)) {
      longest_.assign(fields.size(), {});
      shown_ = fields.size();
      is_brief_ = false;
      has_bar_ = true;
    }
    for (std::size_t i = 0; i < std::min(fields.size(), longest_.size()); ++i) {
      pad_to(fields[i].text, longest_[i].text);
      pad_to(fields[i].brief, longest_[i].brief);
    }
    shown_ = std::min(shown_, fields.size());
    is_brief_ = is_brief_ || room(head, fields, std::min(shown_, kDefaultFields)) < kMinBar;
    while (shown_ > 0 && room(head, fields, shown_) < kMinBar) --shown_;
    const int left = room(head, fields, shown_);
    has_bar_ = has_bar_ && left >= kMinBar;
    std::string line = head;
    if (has_bar_) line += ' ' + bar(share, std::min(left, kMaxBar));
    for (std::size_t i = 0; i < shown_; ++i) line += "  " + field_text(fields[i]);
    line.resize(line.find_last_not_of(' ') + 1);
    return line.substr(0, std::max(columns - 1, 1));
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

  struct Longest {
    std::size_t text = 0, brief = 0;
  };
  int columns_ = 0;
  std::vector<Longest> longest_;  // texts of the fields at this width
  std::size_t shown_ = 0;         // fields at this width
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

// Returns a number with blanks before it, as wide as `largest`.
std::string align(std::int64_t number, std::int64_t largest) {
  std::string text = std::to_string(number);
  const std::size_t width = std::to_string(largest).size();
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

// Moving averages over the steps, which follow a change of speed within some twenty steps.
class Speed {
 public:
  // Begins again with the step after `step`. The first steps are slow, so that the averages are
  // those of the newest step until it is settled.
  void restart(std::int64_t step) { settled_after_ = step + 2; }
  void add(const StepRecord& p) {
    step_ = p.step;
    const double share = is_settled() && seconds_ > 0 ? kShareOfStep : 1;
    const auto follow = [share](double& mean, double value) { mean += share * (value - mean); };
    follow(seconds_, p.step_seconds);
    follow(samples_, static_cast<double>(p.samples));
    follow(steps_, static_cast<double>(p.steps));
  }
  bool is_settled() const { return step_ > settled_after_; }
  double images_per_second() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }
  double steps_per_second() const { return seconds_ > 0 ? steps_ / seconds_ : 0; }

 private:
  static constexpr double kShareOfStep = 0.05;
  std::int64_t step_ = 0, settled_after_ = 2;
  double seconds_ = 0, samples_ = 0, steps_ = 0;  // the averages per step
};

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
    speed_.restart(info.first_step);
    if (quiet_) return;
    out_ << printable(info.name) << ": " << grouped(info.total_steps) << " steps of "
         << info.global_batch << " samples, " << grouped(info.steps_per_epoch)
         << " per epoch, run folder " << folder_ << '\n';
    if (!facts_.origin.empty()) out_ << printable(facts_.origin) << '\n';
    if (!facts_.libraries.empty()) out_ << printable(facts_.libraries) << '\n';
    if (!info.servers.empty()) {
      out_ << info.servers << '\n';
    } else if (info.replicas > 1) {
      out_ << info.replicas << " replicas";
      if (!info.scaled_rate.empty()) {
        out_ << ", the optimizer's learning rate " << info.scaled_rate;
      }
      out_ << '\n';
    }
    if (info.passes_per_epoch > 1) {
      out_ << "each goes through all samples in an order of its own: an epoch is "
           << info.passes_per_epoch << " times the training split\n";
    }
    if (!info.weights.empty()) out_ << "weights " << printable(info.weights) << '\n';
    if (info.first_step > 0) out_ << "resumed after step " << info.first_step << '\n';
    out_.flush();
  }

  Request on_step(const StepRecord& p) override {
    if (p.input != input_ || find_position(p.step).epoch != epoch_number_) {
      epoch_number_ = find_position(p.step).epoch;
      epoch_ = {};
    }
    if (p.input != input_) window_ = {};  // a mean of both speeds would be that of neither
    window_.add(p);
    epoch_.add(p);
    throughput_.add(p);
    if (std::exchange(input_, p.input) != p.input) speed_.restart(p.step - 1);
    speed_.add(p);
    const bool due = interval_->due(p.step, p.elapsed);
    if (quiet_) return Request::kContinue;
    const double since_shown = p.elapsed - shown_at_;
    if (is_tty_ ? since_shown >= kRefresh : due && since_shown >= facts_.min_log_seconds) show();
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    if (is_quiet_run()) return Request::kContinue;
    const bool is_below_its_step = close_line();
    std::string line = evaluation_line(e, Length::kFull);
    if (is_below_its_step && static_cast<int>(line.size()) > columns()) {
      line = evaluation_line(e, Length::kBrief);
    }
    out_ << stamp() << line << '\n';
    flush();
    return Request::kContinue;
  }

  // Writes two closing lines, which scripts may read.
  void on_finish(const Finish& finish) override {
    close_line();
    if (is_quiet_run()) {
      for (const Evaluation& e : finish.evaluations)
        out_ << evaluation_line(e, Length::kFull) << '\n';
    }
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
      print_needed_cores(finish);
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
    const auto computing = throughput_.images_per_second(StepInput::kNewFeatures);
    const auto cached = throughput_.images_per_second(StepInput::kCachedFeatures);
    const bool has_both = computing && cached;
    if (has_both && !quiet_) {
      out_ << "images/second: " << fixed(*computing, 1) << " while features were computed, "
           << fixed(*cached, 1) << " with cached features\n";
    }
    if (!quiet_) out_ << "wall time: " << fixed(finish.wall_seconds, 3) << " seconds\n";
    out_ << "total time" << counted << ": " << fixed(finish.step_seconds, 3) << " seconds\n";
    if (finish.images_per_second) {
      out_ << fixed(*finish.images_per_second, 1) << " images/second" << counted
           << (has_both ? " (mean of both)" : "") << '\n';
    }
    if (!quiet_ && finish.reason != FinishReason::kInterrupted) {
      out_ << "next: trainer evaluate " << folder_ << ", or trainer predict " << folder_
           << " IMAGE...\n";
    }
    flush();
  }

 private:
  // Returns whether nothing but the results at the end is written. Without a run, for a follower,
  // each evaluation is a result.
  bool is_quiet_run() const { return quiet_ && info_.total_steps > 0; }

  enum class Length { kFull, kBrief };
  // Returns "validation: loss 0.2500  accuracy 0.9000 (95 % interval 0.8000-0.9500)  ...". A brief
  // line has abbreviations, and neither the step nor the epoch: the line above must show them.
  static std::string evaluation_line(const Evaluation& e, Length length) {
    const bool is_brief = length == Length::kBrief;
    const engine::Metrics& m = e.metrics;
    std::string line = concat(to_string(e.split), ": loss ", fixed(m.loss, 4));
    if (m.classes > 0) {
      line += concat(is_brief ? "  acc " : "  accuracy ", fixed(m.accuracy, 4),
                     is_brief ? " (95 % " : " (95 % interval ", fixed(m.accuracy_interval.low, 4),
                     "-", fixed(m.accuracy_interval.high, 4), ")");
    }
    if (!m.multi_label.empty()) {
      line +=
          concat(is_brief ? "  subset acc " : "  subset accuracy ",
                 fixed(m.multi_label.subset_accuracy(), 4), "  F1 macro ",
                 fixed(m.multi_label.f1_macro(), 4), " micro ", fixed(m.multi_label.f1_micro(), 4));
      if (!std::isnan(m.multi_label.auc())) line += "  AUC " + fixed(m.multi_label.auc(), 4);
    }
    if (m.top_k > 0) line += concat("  top ", m.top_k, " ", fixed(m.top_k_accuracy, 4));
    if (!is_brief) line += concat("  step ", e.step, "  epoch ", rate(e.epoch));
    return line + "  " + fixed(e.seconds, 1) + " s";
  }
  int columns() const { return facts_.columns ? facts_.columns() : kDefaultColumns; }

  // The position in the run and in its epoch, counted from 1.
  struct EpochPosition {
    std::int64_t epoch, epochs, step, steps;
  };
  EpochPosition find_position(std::int64_t step) const {
    const std::int64_t per_epoch = std::max<std::int64_t>(info_.steps_per_epoch, 1);
    const auto to_epoch = [&](std::int64_t s) { return (s + per_epoch - 1) / per_epoch; };
    const std::int64_t epoch = to_epoch(step);
    return {epoch, to_epoch(info_.total_steps), step - (epoch - 1) * per_epoch,
            std::min(per_epoch, info_.total_steps - (epoch - 1) * per_epoch)};
  }
  EpochPosition position() const { return find_position(window_.last().step); }

  // Returns the time left. While features are computed, it is that of the epoch, because the speed
  // of later epochs is not known yet.
  std::string eta() const {
    const EpochPosition at = position();
    const bool is_slow_epoch = input_ == StepInput::kNewFeatures && at.epoch < at.epochs;
    const std::int64_t left =
        is_slow_epoch ? at.steps - at.step : info_.total_steps - window_.last().step;
    const double rate = speed_.steps_per_second();
    return concat(is_slow_epoch ? "epoch eta " : "eta ",
                  clock_time(rate > 0 ? static_cast<double>(left) / rate : 0));
  }
  static std::string loss(const MetricWindow& window) { return "loss " + fixed(window.loss(), 4); }
  static std::string accuracy(const MetricWindow& window) {
    return std::isnan(window.accuracy()) ? "" : "accuracy " + fixed(window.accuracy(), 4);
  }
  static std::string images(double per_second) {
    return grouped(std::llround(per_second)) + " images/s";
  }
  std::string learning_rate() const { return "lr " + rate(window_.last().learning_rate); }
  static std::string steps(double per_second) { return speed(per_second) + " steps/s"; }
  static std::string wait(const MetricWindow& window) {
    return concat("wait ", fixed(100 * window.wait_share(), 0), "%");
  }

  // Returns a line of a log: "epoch 1/3  step 4/20  loss 0.2500 ...".
  std::string log_line() const {
    const EpochPosition at = position();
    std::vector<std::string> fields{concat("epoch ", at.epoch, "/", at.epochs),
                                    concat("step ", window_.last().step, "/", info_.total_steps),
                                    loss(window_),
                                    accuracy(window_),
                                    learning_rate(),
                                    images(window_.images_per_second()),
                                    steps(window_.steps_per_second()),
                                    wait(window_),
                                    eta()};
    std::erase(fields, "");
    return join(fields, "  ");
  }

  // Returns the line of a terminal: "epoch 1/3  4/8 [=====     ]  eta 0:01 ...".
  std::string terminal_line() {
    const EpochPosition at = position();
    const std::string head = concat("epoch ", align(at.epoch, at.epochs), "/", at.epochs, "  ",
                                    align(at.step, at.steps), "/", at.steps);
    // The time left is not shown at first: the first steps are slow, so that it would be wrong.
    std::vector<Field> fields;
    for (const std::string& text :
         {speed_.is_settled() ? eta() : "eta -:--", loss(epoch_), accuracy(epoch_),
          images(speed_.images_per_second()), learning_rate(), wait(epoch_),
          steps(speed_.steps_per_second())}) {
      if (!text.empty()) fields.push_back({text, brief(text)});
    }
    const double share = static_cast<double>(at.step) / static_cast<double>(at.steps);
    return line_.fit(head, share, fields, columns());
  }

  // Prints how many cores would keep a GPU busy that has waited for images.
  void print_needed_cores(const Finish& finish) {
    constexpr double kLittleWaiting = 0.1;
    const double step =
        finish.step_seconds / std::max(1.0, static_cast<double>(finish.times.steps()));
    const double busy = step - *finish.gap_seconds;
    const double waiting = finish.times.share(engine::StepPhase::kDataWait);
    if (waiting < kLittleWaiting || input_ != StepInput::kSamples || busy <= 0 ||
        finish.read_seconds <= 0)
      return;
    const auto needed = static_cast<std::int64_t>(std::ceil(finish.read_seconds / busy));
    out_ << percent(waiting)
         << " of a step is spent waiting for images; reading them as fast as the "
         << "device computes takes about " << needed << (needed == 1 ? " core" : " cores")
         << ", and " << data::describe_cores(needed) << '\n';
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

  // Ends the terminal's line, which stays as it is. Returns whether there was one.
  bool close_line() {
    if (is_tty_ && !quiet_ && !window_.empty()) show();
    if (open_line_) out_ << '\n';
    return std::exchange(open_line_, false);
  }

  std::ostream& out_;
  bool is_tty_, quiet_;
  config::Duration log_every_;
  TerminalFacts facts_;
  std::optional<Interval> interval_;
  RunInfo info_;
  std::string folder_;   // the folder of the run, as it is printed
  MetricWindow window_;  // since the last line
  MetricWindow epoch_;   // since the start of the epoch
  std::int64_t epoch_number_ = 0;
  StepInput input_ = StepInput::kSamples;  // the input of the newest step
  InputThroughput throughput_;
  Speed speed_;
  double shown_at_ = -std::numeric_limits<double>::infinity();
  TerminalLine line_;
  bool open_line_ = false;
};

}  // namespace

std::unique_ptr<Hook> make_progress_hook(std::ostream& out, bool is_tty, bool quiet,
                                         const config::Duration& log_every, TerminalFacts facts) {
  return std::make_unique<ProgressHook>(out, is_tty, quiet, log_every, std::move(facts));
}

}  // namespace trainer::hooks
