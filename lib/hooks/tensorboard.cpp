#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "base/error.h"
#include "base/process/process.h"
#include "base/text.h"
#include "hooks/formats/confusion_image.h"
#include "hooks/formats/event_file.h"
#include "hooks/hooks.h"
#include "hooks/interval.h"
#include "hooks/summary_window.h"

namespace trainer::hooks {
namespace {

constexpr std::int64_t kMaxClasses = 1000;    // a picture of more classes is not readable
constexpr std::int64_t kDensePictures = 256;  // later ones are drawn further and further apart

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Returns the tag of a metric. "Loss" is the first tag, because TensorBoard sorts capitals first.
std::string make_tag(std::string_view metric) {
  return metric == "loss" ? "Loss" : concat("Metrics/", metric);
}

// Returns the tag of a value of SummaryWindow::list_metrics().
std::string make_training_tag(const std::string& name) {
  if (name == "loss" || name == "accuracy") return make_tag(name);
  return name == "steps_per_second" ? "global_step/sec" : name;  // as TensorFlow's Estimator
}

// Writes events of the whole run into its folder, and those of each split into a folder below,
// which is a run for TensorBoard, so that a chart shows the same number of all splits.
class TensorBoardHook : public Hook {
 public:
  explicit TensorBoardHook(TensorBoardOptions options)
      : options_(std::move(options)), window_(options_.summary_every) {}

  std::string name() const override { return "tensorboard"; }

  // Returns the steps since the last events, then for each split ";SPLIT STEP" of its evaluation.
  std::string save() const override {
    std::string text = window_.save();
    for (const auto& [split, step] : evaluated_) text += concat(';', split, ' ', step);
    return text;
  }
  void restore(const std::string& saved) override {
    const std::vector<std::string> parts = split_text(saved, ';');
    window_.restore(parts[0]);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const std::size_t blank = std::min(parts[i].find(' '), parts[i].size() - 1);
      const auto step = parse_integer(std::string_view(parts[i]).substr(blank + 1));
      if (step) written_before_[parts[i].substr(0, blank)] = *step;
    }
  }

  void on_start(const RunInfo& info) override {
    window_.start(info);
    first_step_ = info.first_step;
    classes_ = info.classes;
    folder_ = info.dir / "tensorboard";
    files_.clear();
    if (options_.config.empty()) return;
    const double now = seconds_since_1970();
    file("").text("config", info.first_step, now, "```yaml\n" + options_.config + "```");
    file("").session(options_.parameters, now);
    if (!options_.samples || info.first_step > 0) return;
    const Bytes samples = options_.samples();
    if (!samples.empty()) file(to_string(Split::kTrain)).image("samples", 0, now, samples);
  }

  Request on_step(const StepRecord& p) override {
    if (window_.add(p)) write_window();
    return Request::kContinue;
  }

  Request on_evaluation(const Evaluation& e) override {
    if (!window_.empty()) write_window();  // so that training has values of the same step
    const std::string split = to_string(e.split);
    evaluated_[split] = e.step;
    // A run that is resumed at its end repeats evaluations that have their events.
    const auto before = written_before_.find(split);
    if (before != written_before_.end() && before->second == e.step) return Request::kContinue;
    for (const auto& [key, value] : engine::named_metrics(e.metrics)) {
      file(split).scalar(make_tag(key), e.step, seconds_since_1970(), static_cast<float>(value));
    }
    ++evaluations_;
    const bool draws = evaluations_ % row_spacing(evaluations_, kDensePictures) == 0;
    if (draws && e.metrics.classes > 0 && e.metrics.classes <= kMaxClasses) {
      file(split).image("confusion_matrix", e.step, seconds_since_1970(),
                        draw_confusion(e.metrics, classes_).png);
    }
    return Request::kContinue;
  }

  void before_checkpoint(std::int64_t) override {
    for (auto& [split, file] : files_) file.sync();
  }

  void on_finish(const Finish& finish) override {
    const bool success = finish.reason != FinishReason::kInterrupted;
    if (!options_.config.empty()) file("").session_end(success, seconds_since_1970());
  }

 private:
  void write_window() {
    const std::int64_t step = window_.steps().last().step;
    for (const auto& [name, value] : window_.list_metrics()) {
      scalar(make_training_tag(name), step, value);
    }
    for (const auto& [name, value] : window_.list_system_metrics()) scalar(name, step, value);
    window_.clear();
  }

  // Writes a value of the training split.
  void scalar(const std::string& tag, std::int64_t step, double value) {
    file(to_string(Split::kTrain))
        .scalar(tag, step, seconds_since_1970(), static_cast<float>(value));
  }

  // Returns the event file of a split, or with "" that of the run. Creates it at the first call.
  EventFile& file(const std::string& split) {
    const auto found = files_.find(split);
    if (found != files_.end()) {
      if (found->second.is_in_place()) return found->second;
      if (options_.warn) {
        options_.warn(concat(found->second.path().string(),
                             ": was moved or removed while the run writes it; later events go to a "
                             "new file"));
      }
      files_.erase(found);
    }
    const Path folder = split.empty() ? folder_ : folder_ / split;
    // The run folder itself is not created again: a run whose folder is gone ends.
    std::filesystem::create_directory(folder_);
    std::filesystem::create_directory(folder);
    const double now = seconds_since_1970();
    // The last number differs between files that a process makes within one second. Programs that
    // collect files of several folders in one (`wandb sync`) lose all but one of the same name.
    static std::atomic<std::int64_t> files_made{0};
    const std::string name = concat("events.out.tfevents.", static_cast<std::int64_t>(now), ".",
                                    host_name(), ".", ::getpid(), ".", files_made++);
    EventFile& made = files_.try_emplace(split, folder / name, now).first->second;
    // TensorBoard reads the files of a folder in the order of their names.
    made.session_start(first_step_ + 1, now);
    return made;
  }

  TensorBoardOptions options_;
  SummaryWindow window_;
  Path folder_;
  std::vector<std::string> classes_;
  std::map<std::string, EventFile> files_;
  std::int64_t first_step_ = 0;
  std::int64_t evaluations_ = 0;  // of this process
  // The step of the last evaluation of each split by this process, and by those before it.
  std::map<std::string, std::int64_t> evaluated_, written_before_;
};

}  // namespace

std::unique_ptr<Hook> make_tensorboard_hook(TensorBoardOptions options) {
  return std::make_unique<TensorBoardHook>(std::move(options));
}

}  // namespace trainer::hooks
