// Small runs of the training loop: data that tests can damage, a hook that records what it
// receives, a clock that stands still.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "support/backend.h"
#include "support/model.h"
#include "train/loop.h"
#include "train/open.h"
#include "train/servers/server_loop.h"

namespace trainer::train::support {

using trainer::test::open_test_backends;

using hooks::FinishReason;
using hooks::Request;

// Images of 4 x 4 float numbers and labels of two classes, both functions of the index.
class FloatImages final : public data::Dataset {
 public:
  explicit FloatImages(std::int64_t size, std::string name = "images")
      : size_(size), name_(std::move(name)) {
    spec_.image_shape = {4, 4, 1};
    spec_.image_type = DType::kFloat32;
    spec_.in_memory = true;
  }

  std::set<std::int64_t> unreadable_samples;
  std::set<std::int64_t> infinite_samples;
  float not_finite = HUGE_VALF;     // a number of each of the infinite_samples
  bool signals_when_read = false;   // raises SIGUSR1 with every sample
  std::function<void()> when_read;  // with every sample

  std::int64_t size() const override { return size_; }
  const data::DatasetSpec& spec() const override { return spec_; }
  using data::Dataset::get;
  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    if (unreadable_samples.contains(index)) {
      throw DataError(name_, concat("sample ", index, " cannot be read"));
    }
    if (signals_when_read) std::raise(SIGUSR1);
    if (when_read) when_read();
    float pixels[16];
    for (std::int64_t i = 0; i < 16; ++i) {
      pixels[i] = static_cast<float>((index * 37 + i * 11) % 31) / 31;
    }
    if (infinite_samples.contains(index)) pixels[3] = not_finite;
    std::memcpy(image, pixels, sizeof pixels);
    const auto is_odd = static_cast<std::int32_t>(index % 2);
    std::memcpy(label, &is_odd, sizeof is_odd);
  }
  std::int32_t label_at(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % 2);
  }
  std::string fingerprint() const override { return concat(size_, " x ", name_); }

 private:
  std::int64_t size_;
  std::string name_;
  data::DatasetSpec spec_;
};

// Writes down every call, in words. `at_step` is called with the number of every step.
class RecordingHook final : public hooks::Hook {
 public:
  using AtStep = std::function<Request(std::int64_t)>;
  RecordingHook(std::vector<std::string>& events, std::vector<std::string>& ranks,
                std::vector<double>& rates, std::vector<std::uint64_t>& sample_ids, AtStep at_step)
      : events_(events),
        ranks_(ranks),
        rates_(rates),
        sample_ids_(sample_ids),
        at_step_(std::move(at_step)) {}

  std::string name() const override { return "recording"; }
  void on_start(const hooks::RunInfo& info) override {
    events_.push_back(concat("start ", info.first_step));
    ranks_ = info.ranks;
  }
  Request on_step(const hooks::StepRecord& progress) override {
    events_.push_back(concat("step ", progress.step));
    sample_ids_.push_back(progress.sample_ids);
    rates_.push_back(progress.learning_rate);
    return at_step_ ? at_step_(progress.step) : Request::kContinue;
  }
  Request on_evaluation(const hooks::Evaluation& evaluation) override {
    events_.push_back(concat(to_string(evaluation.split), " ", evaluation.step));
    return Request::kContinue;
  }
  void on_checkpoint(const Path& path) override {
    const std::string name = path.stem().string();
    events_.push_back("save " + std::to_string(std::stol(name.substr(name.rfind('-') + 1))));
  }
  void on_finish(const hooks::Finish& finish) override {
    events_.push_back(concat("finish ", to_string(finish.reason)));
  }

 private:
  std::vector<std::string>& events_;
  std::vector<std::string>& ranks_;
  std::vector<double>& rates_;
  std::vector<std::uint64_t>& sample_ids_;
  AtStep at_step_;
};

constexpr const char* kDense = "{layers: [flatten, dense: {units: 2}]}";
// Moving statistics, random numbers and slots: all that a resumed run must go on with.
constexpr const char* kBatchNorm =
    "{layers: [conv: {filters: 2}, batch_norm, activation: relu, dropout: 0.2, flatten, "
    "dense: {units: 2}]}";

// 24 samples in batches of 4 make 6 steps per epoch. Nothing is evaluated or saved before the end,
// and no checkpoint is the best, unless the config asks for it.
inline config::Config run_config(const std::string& rest = "", const std::string& model = kDense) {
  const bool has_run = rest.find("run:") != std::string::npos;
  config::Config config = trainer::test::build_config(
      model,
      concat("optimizer: {sgd: {learning_rate: 0.1, momentum: 0.9}}\n",
             has_run ? "" : "run: {evaluate_every: 1000 steps, checkpoint_every: 1000 steps}\n",
             rest));
  config.train.batch_size = 4;
  config.parallel.threads = 1;
  if (rest.find("best:") == std::string::npos) config.run.best.clear();
  return config;
}

// One process's part of a run. A second call of run() goes on where the first has ended.
struct Trial {
  explicit Trial(config::Config of, std::int64_t samples = 24) : config(std::move(of)) {
    auto images = std::make_unique<FloatImages>(samples);
    train = images.get();
    data.train = std::move(images);
    data.classes = {"even", "odd"};
    data.image_shape = data.train->spec().image_shape;
    data.image_type = data.train->spec().image_type;
    data.num_classes = 2;
  }

  void add_split(Split split, std::int64_t samples = 6) {
    auto images = std::make_unique<FloatImages>(samples, to_string(split));
    (split == Split::kTest ? data.test : data.validation) = std::move(images);
  }

  graph::Graph model() const {
    return model::build_model(config.model, config.data, sample_spec(data), config.seed);
  }

  hooks::Finish run(ProcessGroup& group, Start start = Start::kFresh,
                    ParameterServers* servers = nullptr) {
    engine::Engine engine(model(), config, open_test_backends(config.parallel.replicas),
                          engine::Use::kTrain, group.gradients());
    running = &engine;
    Job job{config, data, engine, plan_steps(config, data.train->size(), group.size()), group};
    job.run = folder.path() / "run";
    job.start = start;
    job.warn = [&](const Notice& notice) { warnings.push_back(notice); };
    job.clock = [&] { return seconds; };
    if (make_steps) job.make_steps = make_steps;
    if (group.is_chief()) {
      prepare_run_folder(job.run, config, start);
      job.hooks.push_back(
          std::make_unique<RecordingHook>(events, ranks, rates, sample_ids, at_step));
      if (make_hook) job.hooks.push_back(make_hook());
    }
    return servers == nullptr ? train::train(job) : train_with_servers(job, *servers);
  }

  hooks::Finish run(Start start = Start::kFresh) {
    ProcessGroup alone;
    return run(alone, start);
  }

  FloatImages& validation() const { return static_cast<FloatImages&>(*data.validation); }

  // How often an event came.
  std::int64_t count(const std::string& event) const {
    return std::count(events.begin(), events.end(), event);
  }

  TemporaryFolder folder;
  config::Config config;
  data::Datasets data;
  FloatImages* train;  // data.train
  double seconds = 0;  // the time of the clock
  RecordingHook::AtStep at_step;
  std::function<std::unique_ptr<hooks::Hook>()>
      make_hook;  // one more hook of the chief; may be null
  std::function<std::unique_ptr<Steps>(RunContext&)> make_steps;  // replaces Job::make_steps if set
  engine::Engine* running = nullptr;                              // during a run
  std::vector<std::string> events;
  std::vector<Notice> warnings;
  std::vector<std::string> ranks;         // the names of the ranks
  std::vector<double> rates;              // the learning rate of every step
  std::vector<std::uint64_t> sample_ids;  // the hash of the samples of every step
};

using Events = std::vector<std::string>;

}  // namespace trainer::train::support

namespace doctest {
template <>
struct StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& events) {
    return trainer::join(events).c_str();
  }
};
}  // namespace doctest
