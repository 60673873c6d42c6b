#include "train/servers/parameter_servers.h"

#include <set>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"
#include "config/derived.h"
#include "data/common_data.h"

namespace trainer::train {
namespace {

using backend::FlatBuffer;

constexpr FlatBuffer kStatistics{FlatBuffer::Kind::kStatistics};

// Returns the SHA-256 of the variables that the servers do not hold: all but trained parameters,
// slots and moving statistics. They do not change, so that their checksums can be compared.
std::string frozen_sha256(const engine::Engine& engine) {
  const graph::Graph& model = engine.replica().model();
  std::set<std::string> frozen;
  for (const graph::LayerInfo& layer : model.layers) {
    for (const graph::ValueId id : layer.parameters) {
      const bool statistic = model[id].role == graph::Role::kStatistic;
      if (!layer.trainable || (statistic && layer.moving_statistics)) frozen.insert(model[id].name);
    }
  }
  if (frozen.empty()) return "none";
  std::vector<checkpoint::Tensor> kept;
  for (checkpoint::Tensor& tensor : engine.replica().tensors()) {
    if (frozen.contains(tensor.name)) kept.push_back(std::move(tensor));
  }
  return checkpoint::sha256_of(kept);
}

server::ClientOptions client_options(const cluster::Identity& who, const config::Config& config,
                                     const std::string& model) {
  server::ClientOptions options;
  options.timeout = exchange_timeout(config);
  options.agreement = agreement_facts(who, config);
  options.model = model;
  return options;
}

backend::Variables& engine_variables(engine::Engine& engine) {
  return engine.replica().variables();
}

}  // namespace

bool has_parameter_servers(const cluster::Identity& who) { return !who.cluster.ps.empty(); }

std::string common_model(const data::Datasets& data, const engine::Engine& engine) {
  return concat(data::common_data(data, false), "frozen tensors: ", frozen_sha256(engine), '\n');
}

std::string agreement_facts(const cluster::Identity& who, const config::Config& config) {
  config::Config common = config;
  // Leaves out the normalisation that resolve_normalize() set for float images, which a server does
  // not read.
  const std::optional<config::Normalize>& normalize = common.data.normalize;
  if (normalize && normalize->scale == 1 && normalize->mean.empty() && normalize->std.empty() &&
      !normalize->reverse_channels) {
    common.data.normalize.reset();
  }
  return concat("version: ", who.build.empty() ? TRAINER_VERSION : who.build, "\n",
                cluster::cluster_text(who), config::common_config(std::move(common)));
}

std::chrono::milliseconds exchange_timeout(const config::Config& config) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(config.parallel.timeout.count * 1000));
}

ParameterServers::ParameterServers(const cluster::Identity& who, const config::Config& config,
                                   const std::string& model)
    : who_(who), client_(who, client_options(who, config, model)) {}

std::string ParameterServers::describe() const {
  return concat(counted(who_.size, "worker"), ", ",
                counted(who_.cluster.ps.size(), "parameter server"), ", asynchronous");
}

void ParameterServers::start(engine::Engine& engine, const std::string& model, std::int64_t step,
                             const TrainingPlan& plan) {
  server::Start start;
  start.flat = engine_variables(engine).flat();
  start.step = step;
  start.total_steps = plan.total_steps;
  start.train_samples = plan.samples;
  start.model = model;
  client_.start(start, [&](FlatBuffer buffer, std::int64_t first, std::span<float> to) {
    engine_variables(engine).read_flat(buffer, first, to);
  });
  pull(engine);
}

void ParameterServers::join(engine::Engine& engine) {
  client_.wait_until_started(engine_variables(engine).flat());
  pull(engine);
}

server::Sink ParameterServers::make_sink(engine::Engine& engine) {
  return [&](FlatBuffer buffer, std::int64_t first, std::span<const float> from) {
    engine_variables(engine).write_flat(buffer, first, from);
    if (buffer.kind == FlatBuffer::Kind::kStatistics) before_.assign(from.begin(), from.end());
  };
}

void ParameterServers::record(const server::Pushed& pushed) {
  if (pushed.result == server::Pushed::Result::kOver) return;
  pulled_ = pushed.step;
  saved_ = pushed.saved;
}

bool ParameterServers::pull(engine::Engine& engine) {
  const server::Pushed pulled = client_.pull(make_sink(engine));
  record(pulled);
  return pulled.result != server::Pushed::Result::kOver;
}

server::Pushed ParameterServers::push(engine::Engine& engine) {
  after_.resize(before_.size());
  engine_variables(engine).read_flat(kStatistics, 0, after_);
  const backend::Gradient gradient = engine.replica().gradient();
  const server::Pushed pushed = client_.push(pulled_, gradient, before_, after_, make_sink(engine));
  record(pushed);
  return pushed;
}

std::int64_t ParameterServers::read(engine::Engine& engine) {
  pulled_ = client_.read(make_sink(engine));
  return pulled_;
}

void ParameterServers::finish(bool interrupted) noexcept {
  using Kind = server::Outcome::Kind;
  client_.finish({interrupted ? Kind::kInterrupted : Kind::kDone, ""});
}

void ParameterServers::fail(const std::string& message) noexcept {
  client_.finish(
      {server::Outcome::Kind::kFailed, cluster::rank_name(who_, 0) + " has failed: " + message});
}

}  // namespace trainer::train
