#include "engine/replica.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include "base/numbers/half.h"
#include "base/numbers/seconds.h"
#include "base/numbers/sum_tree.h"
#include "engine/compile_options.h"
#include "optim/optim.h"

namespace trainer::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Indices of the outputs of compile::training_graph(); the logits come first.
constexpr int kLosses = 1, kRanks = 2, kPenalty = 3;

std::int64_t bytes_per_sample(const graph::Value& value) {
  return value.shape.elements() * static_cast<std::int64_t>(size_of(value.type));
}

// Converts the numbers of this type at the start of the memory to float32, in place. The last layer
// gives logits of the type of activations unless it is dense (compile::logits_precision()).
void widen(std::span<float> numbers, DType type) {
  if (type == DType::kFloat32) return;
  const auto* const bytes = reinterpret_cast<const std::byte*>(numbers.data());
  // From the end, so that no number is overwritten before it is read.
  for (std::size_t i = numbers.size(); i-- > 0;) {
    std::uint16_t bits;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    numbers[i] = type == DType::kBFloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
  }
}

}  // namespace

Replica::Replica(const graph::Graph& model, const config::Config& config, backend::Backend& backend,
                 Use use, const ReplicaGroup& group)
    : model_(optim::apply_parameter_options(model, config.optimizer)),
      backend_(backend),
      options_(compile_options(config, backend)),
      optimizer_(config.optimizer),
      use_(use),
      mixes_samples_(config::mixes_samples(config.data)),
      evaluates_alone_(!config.parallel.evaluate),
      stream_(backend.make_stream()),
      prediction_(use == Use::kPredict),
      batch_(config.train.batch_size),
      evaluation_batch_(config.evaluate.batch_size.value_or(config.train.batch_size)),
      compile_(executable_options(config, group.remote)) {
  if (group.gradients != nullptr) {
    gradients_ = backend_.make_collective(*group.gradients);
    compile_.reduction.gradients = gradients_.get();
  }
  if (group.statistics != nullptr) {
    if (!backend_.shares_collectives()) {
      statistics_ = backend_.make_collective(*group.statistics);
    }
    compile_.reduction.statistics = statistics_ ? statistics_.get() : gradients_.get();
  }
  const std::int64_t ranks = rank_count();
  capacity_ = max_rank_samples(batch_ * ranks, leaves(), ranks);
  evaluation_capacity_ = evaluates_alone_
                             ? evaluation_batch_
                             : max_rank_samples(evaluation_batch_ * ranks, leaves(), ranks);
  image_bytes_ = bytes_per_sample(model_[model_.inputs[0]]);
  build();
  if (use_ == Use::kTrain) allocate_calls();
  if (!backend_.reads_host_memory()) allocate_staging();
}

std::int64_t Replica::rank_count() const { return gradients_ ? gradients_->size() : 1; }

std::int64_t Replica::leaves() const {
  return compile_.reduction.ordered ? compile_.reduction.micro_batches : 0;
}

void Replica::abort(const std::string& reason) noexcept {
  if (gradients_) gradients_->abort(reason);
  if (statistics_) statistics_->abort(reason);
}

Replica::~Replica() { release_programs(); }

void Replica::finish_uploads() noexcept {
  try {
    if (upload_stream_) upload_stream_->synchronize();
  } catch (const std::exception&) {
    // The failure of the launches is the error to report.
  }
}

void Replica::release_programs() noexcept {
  upload_stream_.reset();
  stream_.reset();
  evaluate_.reset();
  train_.reset();
}

void Replica::allocate_calls() {
  const std::size_t samples = capacity_;
  losses_.resize(samples);
  calls_.resize(backend_.launches_in_flight());
  for (Call& call : calls_) {
    call.result = backend_.allocate_host(sizeof(backend::CallResult));
    call.losses = backend_.allocate(samples * sizeof(float));
    call.ranks = backend_.allocate(samples * sizeof(std::int32_t));
    call.penalty = backend_.allocate(sizeof(float));
    call.done = backend_.make_event();
    call.uploaded = backend_.make_event();
  }
}

// Allocates memory for the largest call, so that no step allocates.
void Replica::allocate_staging() {
  const auto reserve = [&](backend::Buffer& buffer, std::int64_t bytes) {
    const std::size_t wanted = bytes;
    if (buffer.bytes() < wanted) buffer = backend_.allocate(wanted);
  };
  const std::int64_t input_bytes = std::max(image_bytes_, input_bytes_);
  reserve(evaluated_.input, evaluation_capacity_ * input_bytes);
  if (!prediction_) reserve(evaluated_.labels, evaluation_capacity_ * label_bytes_);
  for (Call& call : calls_) {
    reserve(call.inputs.input, capacity_ * input_bytes);
    reserve(call.inputs.labels, capacity_ * target_bytes_);
  }
  if (!upload_stream_ && !calls_.empty()) upload_stream_ = backend_.make_stream();
  const auto floats = static_cast<std::int64_t>(sizeof(float));
  reserve(device_logits_, evaluation_capacity_ * outputs_ * floats);
  if (!prediction_) reserve(device_losses_, evaluation_capacity_ * floats);
}

void Replica::build() {
  compile::FrozenSplit split = compile::split_frozen(model_, options_);
  no_prefix_ = split.reason;
  rest_ = no_prefix_.empty() ? std::move(split.suffix) : model_;
  const graph::Graph evaluation = compile::evaluation_graph(rest_, options_, prediction_);
  outputs_ = evaluation[evaluation.outputs[0]].shape.elements();
  output_type_ = evaluation[evaluation.outputs[0]].type;
  input_bytes_ = bytes_per_sample(rest_[rest_.inputs[0]]);
  if (!prediction_) label_bytes_ = bytes_per_sample(evaluation[evaluation.inputs[1]]);
  evaluation_prefix_.reset();
  prefix_.reset();
  evaluate_.reset();
  train_.reset();
  if (use_ == Use::kTrain) {
    const graph::Graph trained = training_model(rest_, mixes_samples_);
    const graph::Graph training = compile::training_graph(trained, options_);
    without_gradient_ = compile::parameters_without_gradient(training);
    has_penalty_ = training.outputs.size() > kPenalty;
    target_bytes_ = bytes_per_sample(trained[trained.inputs[1]]);
    if (compile_.reduction.ordered) check_no_batch_statistics(training);
    variables_ = backend_.allocate(training);
    compile_.max_samples = capacity_;
    compile_.reduction.max_all_samples = batch_ * rank_count();
    compile_.result_outputs = {kLosses, kRanks, has_penalty_ ? kPenalty : -1};
    train_ = backend_.compile(training, *variables_, compile_);
    compile_.result_outputs = {};
  } else {
    variables_ = backend_.allocate(evaluation);
  }
  compile_.max_samples = evaluation_capacity_;
  compile_.reduction.max_all_samples = evaluation_batch_ * rank_count();
  backend::CompileOptions evaluating = compile_;
  if (evaluates_alone_) {
    evaluating.reduction.gradients = evaluating.reduction.statistics = nullptr;
    evaluating.reduction.max_all_samples = 0;
  }
  evaluate_ = backend_.compile(evaluation, *variables_, evaluating);
  if (!no_prefix_.empty()) return;
  backend::CompileOptions options = compile_;
  if (use_ == Use::kTrain) {
    options.max_samples = std::max(capacity_, evaluation_capacity_);
    options.reduction.max_all_samples = std::max(batch_, evaluation_batch_) * rank_count();
  }
  // For the prediction of a single image, speed matters more.
  options.same_for_any_batch = !prediction_;
  prefix_ = std::make_unique<FrozenPrefix>(split, options_, backend_, *variables_, options);
  if (!evaluates_alone_ || !options.reduction.ordered || use_ != Use::kTrain) return;
  evaluating.same_for_any_batch = true;
  evaluation_prefix_ =
      std::make_unique<FrozenPrefix>(split, options_, backend_, *variables_, evaluating);
}

void Replica::change_frozen(const graph::Graph& model) {
  const std::vector<checkpoint::Tensor> kept = tensors();
  const std::optional<backend::LossScaleState> scale = loss_scale();
  model_ = optim::apply_parameter_options(model, optimizer_);
  build();
  if (!backend_.reads_host_memory()) allocate_staging();
  write(kept);
  if (scale) set_loss_scale(*scale);
}

std::optional<backend::LossScaleState> Replica::loss_scale() {
  if (train_ == nullptr || !compile_.loss_scale.dynamic) return std::nullopt;
  return train_->loss_scale(*stream_);
}

void Replica::set_loss_scale(const backend::LossScaleState& scale) {
  if (train_ != nullptr && compile_.loss_scale.dynamic) train_->set_loss_scale(scale, *stream_);
}

backend::Span Replica::to_device(const void* host, std::size_t bytes, backend::Buffer& device,
                                 backend::Stream& stream) {
  if (backend_.reads_host_memory() || bytes == 0) {
    return {static_cast<std::byte*>(const_cast<void*>(host)), bytes};
  }
  if (device.bytes() < bytes) {
    stream_->synchronize();
    device = backend_.allocate(bytes);
  }
  stream.upload(device.span(), host, bytes);
  return device.span();
}

backend::Span Replica::output_memory(std::span<float> host, backend::Buffer& device) {
  if (backend_.reads_host_memory()) {
    return {reinterpret_cast<std::byte*>(host.data()), host.size_bytes()};
  }
  if (device.bytes() < host.size_bytes()) device = backend_.allocate(host.size_bytes());
  return device.span();
}

std::array<backend::Span, 2> Replica::to_device(const HostBatch& batch, std::int64_t label_bytes,
                                                DeviceInputs& device, backend::Stream& stream) {
  const std::int64_t bytes = batch.is_features ? input_bytes_ : image_bytes_;
  return {to_device(batch.input, batch.samples * bytes, device.input, stream),
          to_device(batch.labels, batch.samples * label_bytes, device.labels, stream)};
}

backend::Span Replica::program_input(const HostBatch& batch, backend::Span given,
                                     FrozenPrefix* prefix, std::int64_t all_samples) {
  last_prefix_ = prefix;
  const bool computes = prefix != nullptr && !batch.is_features;
  return computes ? prefix->launch(batch.samples, given, all_samples, *stream_) : given;
}

void Replica::launch(const HostBatch& batch, const backend::Scalars& scalars) {
  Call& call = calls_[launched_++ % calls_.size()];
  call.samples = batch.samples;
  const Clock::time_point start = Clock::now();
  // The previous call of this slot is done, because its result was read.
  // Uploads have a stream of their own, so that they run while the device works on the call before.
  // Reasons: lib/decisions/backend.md#batches-are-copied-data-sets-are-not-kept-on-the-device.
  backend::Stream& uploads = upload_stream_ ? *upload_stream_ : *stream_;
  const auto [given, labels] = to_device(batch, target_bytes_, call.inputs, uploads);
  uploads.record(*call.uploaded);
  stream_->wait_for(*call.uploaded);
  const backend::Span inputs[] = {program_input(batch, given, prefix_.get(), scalars.all_samples),
                                  labels};
  call.input_seconds = seconds_since(start);
  const backend::Span outputs[] = {{}, call.losses.span(), call.ranks.span(), call.penalty.span()};
  auto* result = reinterpret_cast<backend::CallResult*>(call.result.data());
  train_->launch(
      {batch.samples, inputs, std::span(outputs, has_penalty_ ? kPenalty + 1 : kPenalty), result},
      scalars, *stream_);
  stream_->record(*call.done);
}

bool Replica::record(backend::WorkRecorder* recorder) {
  const bool can = train_->record(recorder);
  return (!prefix_ || prefix_->program().record(recorder)) && can;
}

backend::CallResult Replica::result() {
  Call& call = calls_[read_++ % calls_.size()];
  call.done->wait();
  auto result = *reinterpret_cast<const backend::CallResult*>(call.result.data());
  // Where a launch blocks, the frozen layers have run while the inputs were prepared.
  if (result.times.measured && calls_.size() == 1) result.times.forward += call.input_seconds;
  return result;
}

std::span<const float> Replica::losses() {
  const Call& call = calls_[(read_ + calls_.size() - 1) % calls_.size()];
  const std::size_t count = call.samples;
  stream_->download(losses_.data(), call.losses.span(), count * sizeof(float));
  stream_->synchronize();
  return std::span(losses_).first(count);
}

void Replica::evaluate(const HostBatch& batch, std::int64_t all_samples, std::span<float> logits,
                       std::span<float> losses) {
  FrozenPrefix* prefix = evaluation_prefix_ ? evaluation_prefix_.get() : prefix_.get();
  const auto [given, labels] =
      to_device(batch, prediction_ ? 0 : label_bytes_, evaluated_, *stream_);
  const backend::Span inputs[] = {program_input(batch, given, prefix, all_samples), labels};
  const backend::Span outputs[] = {output_memory(logits, device_logits_),
                                   output_memory(losses, device_losses_)};
  const std::size_t count = prediction_ ? 1 : 2;
  backend::Scalars scalars;
  scalars.all_samples = all_samples;
  evaluate_->launch({batch.samples, std::span(inputs, count), std::span(outputs, count), nullptr},
                    scalars, *stream_);
  if (!backend_.reads_host_memory()) {
    stream_->download(logits.data(), outputs[0], logits.size_bytes());
    if (!prediction_) stream_->download(losses.data(), outputs[1], losses.size_bytes());
  }
  stream_->synchronize();
  widen(logits, output_type_);
}

void Replica::read_features(std::int64_t samples, void* to) {
  stream_->download(to, last_prefix_->features(), samples * input_bytes_);
  stream_->synchronize();
}

backend::MemoryReport Replica::memory() const {
  backend::MemoryReport report = train_ ? train_->memory() : evaluate_->memory();
  if (prefix_) report.activations += prefix_->bytes();
  if (evaluation_prefix_) report.activations += evaluation_prefix_->bytes();
  // Sums what each program has of its own; variables, gradients and arenas are shared.
  const auto add_own = [&](const backend::Executable& program) {
    const backend::MemoryReport one = program.memory();
    report.staging += one.staging;
    report.tables += one.tables;
    report.workspace = std::max(report.workspace, one.workspace);
  };
  if (train_) add_own(*evaluate_);
  if (prefix_) add_own(prefix_->program());
  if (evaluation_prefix_) add_own(evaluation_prefix_->program());
  const auto staged = [&](const backend::Buffer& buffer) {
    report.staging += static_cast<std::int64_t>(buffer.bytes());
  };
  for (const backend::Buffer* buffer :
       {&evaluated_.input, &evaluated_.labels, &device_logits_, &device_losses_}) {
    staged(*buffer);
  }
  for (const Call& call : calls_) {
    for (const backend::Buffer* buffer :
         {&call.inputs.input, &call.inputs.labels, &call.losses, &call.ranks, &call.penalty}) {
      staged(*buffer);
    }
  }
  return report;
}

void Replica::load(const checkpoint::TensorFile& file, const std::string& path) {
  load_all(*variables_, file, path, train_ ? UnknownTensors::kRejected : UnknownTensors::kIgnored);
}

}  // namespace trainer::engine
