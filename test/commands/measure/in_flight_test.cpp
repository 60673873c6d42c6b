// Commands that measure training run its loop: the next call is launched before the result of one
// is read.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "commands/find/find.h"
#include "commands/profile/layer_profile.h"
#include "model/build_model.h"
#include "reference_backend/reference_backend.h"
#include "reference_backend/stream.h"
#include "support/model.h"
#include "train/open.h"

namespace trainer::commands::in_flight_test {
namespace {

// The launches of training calls, and the host's waits for results, in their order.
struct Log {
  std::int64_t unread = 0, most_unread = 0;
  std::int64_t overlapping = 0;  // launches while a result was not read
  void launch() {
    if (unread > 0) ++overlapping;
    most_unread = std::max(most_unread, ++unread);
  }
  void wait() { --unread; }
};

class NotedEvent final : public test::ReferenceEvent {
 public:
  explicit NotedEvent(Log& log) : log_(log) {}
  void wait() const override {
    ReferenceEvent::wait();
    log_.wait();
  }

 private:
  Log& log_;
};

class NotedExecutable final : public backend::Executable {
 public:
  NotedExecutable(std::unique_ptr<backend::Executable> inner, Log& log)
      : inner_(std::move(inner)), log_(log) {}
  void launch(const backend::Bindings& bindings, const backend::Scalars& scalars,
              backend::Stream& stream) override {
    log_.launch();
    inner_->launch(bindings, scalars, stream);
  }
  void prepare(std::int64_t samples, std::int64_t all) override { inner_->prepare(samples, all); }
  backend::Gradient gradient(backend::Stream& stream) override { return inner_->gradient(stream); }
  void read_gradient(backend::Stream& stream, std::int64_t first, std::span<float> to) override {
    inner_->read_gradient(stream, first, to);
  }
  backend::MemoryReport memory() const override { return inner_->memory(); }
  void print(std::ostream& out) const override { inner_->print(out); }

 private:
  std::unique_ptr<backend::Executable> inner_;
  Log& log_;
};

class NotedBackend final : public backend::Backend {
 public:
  explicit NotedBackend(Log& log) : log_(log) {}
  std::string describe() const override { return inner_->describe(); }
  bool supports(DType type) const override { return inner_->supports(type); }
  bool prefers_bfloat16() const override { return inner_->prefers_bfloat16(); }
  backend::Buffer allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  HostBuffer allocate_host(std::size_t bytes) override { return inner_->allocate_host(bytes); }
  bool reads_host_memory() const override { return false; }
  std::unique_ptr<backend::Stream> make_stream() override { return inner_->make_stream(); }
  std::unique_ptr<backend::Event> make_event() override {
    return std::make_unique<NotedEvent>(log_);
  }
  int launches_in_flight() const override { return inner_->launches_in_flight(); }
  std::unique_ptr<backend::Variables> allocate(const graph::Graph& graph) override {
    return inner_->allocate(graph);
  }
  std::unique_ptr<backend::Executable> compile(const graph::Graph& graph,
                                               backend::Variables& variables,
                                               const backend::CompileOptions& options) override {
    return std::make_unique<NotedExecutable>(inner_->compile(graph, variables, options), log_);
  }
  std::unique_ptr<backend::Collective> make_collective(cluster::Communicator& ranks) override {
    return inner_->make_collective(ranks);
  }

 private:
  std::unique_ptr<backend::Backend> inner_ = test::open_reference_backend();
  Log& log_;
};

config::Config small_config() {
  config::Config config = test::build_config("{layers: [flatten, dense: 3]}",
                                             "optimizer: {sgd: {learning_rate: 0.01}}\n");
  config.train.batch_size = 8;
  config.data.format = config::DataFormat::kSynthetic;
  config.data.synthetic.train_samples = 80;
  config.data.synthetic.shape = {4, 4, 1};
  config.data.synthetic.classes = 3;
  return config;
}

struct Noted {
  Log log;
  config::Config config = small_config();
  data::Datasets data = train::open_training_data(config, Split::kTrain);
  engine::Engine engine{model::build_model(config.model, config.data, train::sample_spec(data), 1),
                        config, backends(), engine::Use::kTrain};

  Noted() { engine.initialise(1); }
  std::vector<std::unique_ptr<backend::Backend>> backends() {
    std::vector<std::unique_ptr<backend::Backend>> all;
    all.push_back(std::make_unique<NotedBackend>(log));
    return all;
  }
};

}  // namespace

TEST_CASE("find learning-rate: a step is launched before the loss of the one before is read") {
  Noted noted;
  RangeTestOptions options;
  options.steps = 12;
  options.high = 1e-3;
  const RangeTest test =
      test_learning_rates(noted.engine, *noted.data.train, noted.config, options);
  CHECK(test.points.size() == 12);
  CHECK(noted.log.most_unread == 2);
  CHECK(noted.log.overlapping == 11);
  CHECK(noted.log.unread == 0);
  CHECK(test.points.front().rate == doctest::Approx(1e-7));
  CHECK(test.points.back().rate == doctest::Approx(1e-3));
}

TEST_CASE("find learning-rate: a loss that is not finite ends the test with calls in flight") {
  Noted noted;
  RangeTestOptions options;
  options.steps = 40;
  options.low = 1;
  options.high = 1e38;
  const RangeTest test =
      test_learning_rates(noted.engine, *noted.data.train, noted.config, options);
  CHECK(test.diverged);
  CHECK(test.points.size() < 40);
  CHECK(noted.log.unread == 0);
}

TEST_CASE("profile: the time of a step in training is measured with several in flight") {
  Noted noted;
  const LayerProfile profile = profile_layers(noted.engine, *noted.data.train, noted.config, 5);
  CHECK(profile.launches_in_flight == 2);
  CHECK(noted.log.most_unread == 2);
  CHECK(noted.log.overlapping == 5);
  CHECK(noted.log.unread == 0);
  CHECK(profile.loop_seconds > 0);
  CHECK(profile.loop_wait_seconds >= 0);
  CHECK(profile.device_seconds() == profile.loop_seconds - profile.loop_wait_seconds);
  CHECK(profile.step_seconds > 0);
}

}  // namespace trainer::commands::in_flight_test
