// A model on one device: its variables, its training program and its evaluation program. Where the
// first layers are frozen, a third program computes their features from the images, and the other
// two take features.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/tensor_file.h"
#include "compile/compile.h"
#include "config/config.h"
#include "engine/frozen_prefix.h"
#include "engine/variable_values.h"
#include "graph/graph.h"

namespace trainer::engine {

// The ranks that a replica belongs to. The pointers are null for a replica that is alone.
struct ReplicaGroup {
  cluster::Communicator* gradients = nullptr;
  // A duplicate of `gradients`, if batch norm takes its statistics over all ranks.
  cluster::Communicator* statistics = nullptr;
  bool remote = false;  // some ranks are in other processes, so that all-reduce overlaps backward
};

// The samples of one call in host memory, rows packed.
struct HostBatch {
  std::int64_t samples = 0;
  const void* input = nullptr;  // images; with `is_features` output of Replica::read_features()
  bool is_features = false;
  const void* labels = nullptr;  // null is allowed with Use::kPredict
};

// What programs are built for.
enum class Use { kTrain, kEvaluate, kPredict };

class Replica {
 public:
  // `model` is the forward graph of model::build_model. kTrain has a training and an evaluation
  // program, kEvaluate only the latter, kPredict one without labels and losses.
  Replica(const graph::Graph& model, const config::Config& config, backend::Backend& backend,
          Use use, const ReplicaGroup& group = {});
  // Waits for the work of the device, which uses the memory of this object.
  ~Replica();
  // Waits until the device has read the batches of all launches, also after a failure.
  void finish_uploads() noexcept;
  // Waits for the device and frees the programs; only the destructor may follow. Replicas that sum
  // together all release their programs before the first is destroyed, because the end of one
  // communicator may wait until the graphs of all are gone.
  void release_programs() noexcept;

  // These call the functions of variable_values.h for all variables.
  void initialise(std::uint64_t seed) { engine::initialise(*variables_, seed); }
  void write(const std::vector<checkpoint::Tensor>& tensors) { write_known(*variables_, tensors); }
  std::vector<checkpoint::Tensor> tensors() const { return read_all(*variables_); }
  std::string parameters_sha256() const { return engine::parameters_sha256(*variables_); }
  const graph::Graph& model() const { return model_; }
  // Freezes other layers of the same model. Optimizer slots of parameters that were and are trained
  // keep their values; all other slots start anew.
  void change_frozen(const graph::Graph& model);
  // Sets all variables. Throws DataError naming every tensor of `path` that is missing, has another
  // shape or, with kTrain, is unknown (evaluation and prediction ignore optimizer slots).
  void load(const checkpoint::TensorFile& file, const std::string& path);
  std::vector<graph::Value> variable_values() const { return variables_->values(); }

  // The frozen layers at the start of the model; null, with the reason, when there are none.
  const FrozenPrefix* prefix() const { return prefix_.get(); }
  const std::string& no_prefix_reason() const { return no_prefix_; }
  // Calls Executable::prepare() of the training program.
  void prepare(std::int64_t samples, std::int64_t all_samples) {
    train_->prepare(samples, all_samples);
  }
  // Launches one call of the training program and returns. At most launches_in_flight() calls may
  // be waiting for result(). The memory of the batch must stay valid until its result is read.
  void launch(const HostBatch& batch, const backend::Scalars& scalars);
  // Calls Executable::record() of the training program and of the frozen layers before it.
  bool record(backend::WorkRecorder* recorder);
  // Waits for the oldest launched call whose result was not read. A call whose result is not
  // finite leaves the parameters unchanged.
  backend::CallResult result();
  // Returns Stream::gaps() of the stream on which all calls run.
  std::optional<backend::StreamGaps> gaps() { return stream_->gaps(); }
  // The number of calls that may be launched before result() must be called; 1 if launch() blocks.
  int launches_in_flight() const { return static_cast<int>(calls_.size()); }
  // The loss of each sample of the call whose result was read last. Waits for the device.
  std::span<const float> losses();
  // Runs the evaluation program on up to evaluation_batch() samples and waits. Writes `logits`
  // [samples, outputs] and, except for kPredict, `losses` [samples]. `all_samples`: samples of the
  // calls of all ranks; 0: of this one. With parallel.evaluate: false no other rank calls it.
  void evaluate(const HostBatch& batch, std::int64_t all_samples, std::span<float> logits,
                std::span<float> losses);
  // Copies the features that the prefix made of the first `samples` images of the last call,
  // launched or evaluated.
  void read_features(std::int64_t samples, void* to);
  // The gradient of the last call, which did not update: see backend::Executable::gradient().
  backend::Gradient gradient() { return train_->gradient(*stream_); }
  // Calls Executable::read_gradient() of the training program.
  void read_gradient(std::int64_t first, std::span<float> to) {
    train_->read_gradient(*stream_, first, to);
  }
  // Returns the trained parameters whose gradient is zero whatever the samples are: biases that
  // batch norm cancels.
  const std::set<std::string>& parameters_without_gradient() const { return without_gradient_; }

  // Returns the loss scale of the training program; nothing unless it is dynamic. Waits for the
  // device.
  std::optional<backend::LossScaleState> loss_scale();
  // Does nothing unless the loss scale is dynamic.
  void set_loss_scale(const backend::LossScaleState& scale);

  // Makes every waiting rank of its group throw PeerError with this reason. Thread-safe.
  void abort(const std::string& reason) noexcept;

  std::int64_t outputs() const { return outputs_; }  // logits per sample
  // The bytes of one sample in a batch: of its image, of the programs' input (the features if there
  // is a prefix), of its label for evaluation, and of its label for training.
  std::int64_t image_bytes() const { return image_bytes_; }
  std::int64_t input_bytes() const { return input_bytes_; }
  std::int64_t label_bytes() const { return label_bytes_; }
  std::int64_t target_bytes() const { return target_bytes_; }
  std::int64_t batch() const { return batch_; }
  std::int64_t evaluation_batch() const { return evaluation_batch_; }
  // The micro-batches that ordered sums cut the batch of all ranks into; 0: sums are not ordered.
  std::int64_t leaves() const;
  backend::MemoryReport memory() const;
  backend::Variables& variables() { return *variables_; }
  std::vector<backend::InstructionInfo> training_instructions() const {
    return train_->instructions();
  }
  void print_training_program(std::ostream& out) const { train_->print(out); }
  void print_evaluation_program(std::ostream& out) const { evaluate_->print(out); }

  // Call it after a call that was not finite, with the same batch. Returns the first layer, in
  // order, whose output is not finite, or a parameter that is not finite itself; "" if all are
  // finite.
  std::string find_not_finite(const HostBatch& batch, const backend::Scalars& scalars);

 private:
  std::int64_t rank_count() const;
  // Device copies of a call's inputs, on devices that do not read host memory.
  struct DeviceInputs {
    backend::Buffer input, labels;
  };
  // The memory of a launched call whose result was not read.
  struct Call {
    std::int64_t samples = 0;
    double input_seconds = 0;  // time that launch() took to copy the inputs
    DeviceInputs inputs;
    std::unique_ptr<backend::Event> uploaded;
    HostBuffer result;
    backend::Buffer losses, ranks, penalty;
    std::unique_ptr<backend::Event> done;
  };

  void build();
  void allocate_calls();
  void allocate_staging();
  // Returns memory from which the device can read `bytes` of `host`: that of `host`, or `device`
  // after a copy in the stream's order.
  backend::Span to_device(const void* host, std::size_t bytes, backend::Buffer& device,
                          backend::Stream& stream);
  // Calls to_device() for the images or features of a batch and for its labels, and returns both.
  std::array<backend::Span, 2> to_device(const HostBatch& batch, std::int64_t label_bytes,
                                         DeviceInputs& device, backend::Stream& stream);
  // Returns the input of the programs for `given`, the images or features of a batch on the device.
  backend::Span program_input(const HostBatch& batch, backend::Span given, FrozenPrefix* prefix,
                              std::int64_t all_samples);
  // Returns memory for an output that goes to host memory: that of `host`, or `device`, from which
  // it is copied.
  backend::Span output_memory(std::span<float> host, backend::Buffer& device);

  graph::Graph model_, rest_;  // rest_: the layers after the prefix, or the whole model
  backend::Backend& backend_;
  compile::Options options_;
  config::Optimizer optimizer_;
  Use use_;
  bool mixes_samples_ = false, evaluates_alone_ = false;
  // Training inputs are copied on a stream of their own while the device works on the previous
  // call.
  std::unique_ptr<backend::Stream> stream_, upload_stream_;
  std::unique_ptr<backend::Collective> gradients_, statistics_;
  std::unique_ptr<backend::Variables> variables_;
  std::unique_ptr<backend::Executable> train_, evaluate_;
  // evaluation_prefix_ exists if prefix_ divides batches by the ranks and evaluation does not.
  std::unique_ptr<FrozenPrefix> prefix_, evaluation_prefix_;
  std::string no_prefix_;
  std::set<std::string> without_gradient_;
  bool prediction_ = false, has_penalty_ = false;
  DType output_type_ = DType::kFloat32;
  std::int64_t outputs_ = 0, image_bytes_ = 0, input_bytes_ = 0, label_bytes_ = 0;
  std::int64_t target_bytes_ = 0, batch_ = 0, evaluation_batch_ = 0;
  // The most samples of a call: more than batch_ where the micro-batches of ordered sums do not
  // divide evenly among the ranks.
  std::int64_t capacity_ = 0, evaluation_capacity_ = 0;
  backend::CompileOptions compile_;
  std::vector<Call> calls_;  // a ring: call i is at i % size
  std::uint64_t launched_ = 0, read_ = 0;
  FrozenPrefix* last_prefix_ = nullptr;  // the prefix that made the features of the last call
  std::vector<float> losses_;
  // The inputs and outputs of evaluation on devices that do not read host memory.
  DeviceInputs evaluated_;
  backend::Buffer device_logits_, device_losses_;
};

}  // namespace trainer::engine
