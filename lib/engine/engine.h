// A model on a device: its variables, its training program and its evaluation program. Where the
// first layers are frozen, both take the features that those make, which a program of their own
// computes of the images.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "compile/compile.h"
#include "config/config.h"
#include "engine/frozen_prefix.h"
#include "graph/graph.h"

namespace trainer::engine {

// The compile options that a config asks of a backend. Throws ConfigError when the backend cannot
// run the precision.
compile::Options compile_options(const config::Config& config, const backend::Backend& backend);
// The model as it is trained: with mixed samples it takes float rows for labels, while evaluation
// keeps class indices.
graph::Graph training_model(const graph::Graph& model, bool mixes_samples);

// MiB of gradients that go to other processes at once, when parallel.bucket_mb does not say.
constexpr double kRemoteBucketMb = 4;

// The ranks that an engine is one of. Null where it is alone.
struct EngineGroup {
  cluster::Communicator* gradients = nullptr;
  // A duplicate, when batch norm shall take its statistics over all ranks.
  cluster::Communicator* statistics = nullptr;
  bool remote = false;  // some ranks are in other processes: waiting for them is worth hiding
};

class Engine {
 public:
  // What a program is built for.
  enum class Use { kTrain, kEvaluate, kPredict };

  // `model` is the forward graph of model::build_model. kTrain has a training and an evaluation
  // program, kEvaluate the second alone, kPredict one that takes no labels and gives no losses.
  Engine(const graph::Graph& model, const config::Config& config, backend::Backend& backend,
         Use use, const EngineGroup& group = {});

  // Fills all variables from their initialisers.
  void initialise(std::uint64_t seed);
  // Sets some variables, and the weight averages that start as copies of them.
  void write(const std::vector<checkpoint::Tensor>& tensors);
  const graph::Graph& model() const { return model_; }
  // Goes on with other layers frozen, and in everything else the same model. Optimizer slots of
  // parameters that were and are trained are kept, those of others start anew.
  void change_frozen(const graph::Graph& model);
  // All variables, in the order of the graph.
  std::vector<checkpoint::Tensor> tensors() const;
  // Sets all variables. Throws DataError naming every tensor of `path` that is missing, has another
  // shape or, with kTrain, has no place: others have no use for optimizer slots.
  void load(const checkpoint::TensorFile& file, const std::string& path);
  // SHA-256 over parameters and statistics in name order.
  std::string parameters_sha256() const;
  std::vector<graph::Value> variables() const { return variables_->values(); }

  // The frozen layers at the start of the model; null, with the reason, when there are none.
  const FrozenPrefix* prefix() const { return prefix_.get(); }
  const std::string& no_prefix_reason() const { return no_prefix_; }
  // What the programs take of these images: the features where there is a prefix, the images
  // themselves otherwise. Valid until the next call.
  const void* input_of(std::int64_t samples, const void* images, std::int64_t all_samples = 0);
  // The same, for the evaluation program.
  const void* evaluation_input_of(std::int64_t samples, const void* images,
                                  std::int64_t all_samples = 0);

  // One call of the training program; logits [samples, outputs] and losses [samples] are filled.
  // Returns whether the losses were all finite, of all ranks when scalars.apply; the parameters are
  // unchanged when they were not.
  bool step(std::int64_t samples, const void* images, const void* labels,
            const backend::Scalars& scalars) {
    return step_on(samples, input_of(samples, images, scalars.all_samples), labels, scalars);
  }
  // The evaluation program on up to evaluation_batch() samples. labels may be null for kPredict.
  // `all_samples`: those of all ranks' calls together; 0: these. With parallel.evaluate: false no
  // other rank makes the call.
  void evaluate(std::int64_t samples, const void* images, const void* labels,
                std::int64_t all_samples = 0) {
    evaluate_on(samples, evaluation_input_of(samples, images, all_samples), labels, all_samples);
  }
  // The same, given what input_of() gives.
  bool step_on(std::int64_t samples, const void* input, const void* labels,
               const backend::Scalars& scalars);
  void evaluate_on(std::int64_t samples, const void* input, const void* labels,
                   std::int64_t all_samples = 0);
  std::span<const float> logits() const { return logits_; }
  std::span<const float> losses() const { return losses_; }
  double penalty() const { return static_cast<double>(penalty_); }  // of the last training step

  std::int64_t outputs() const { return outputs_; }  // logits a sample
  // Bytes that a sample takes in a batch: of images, of what input_of() gives, of labels to
  // evaluate with, of labels to train with.
  std::int64_t image_bytes() const { return image_bytes_; }
  std::int64_t input_bytes() const { return input_bytes_; }
  std::int64_t label_bytes() const { return label_bytes_; }
  std::int64_t target_bytes() const { return target_bytes_; }
  std::int64_t batch() const { return batch_; }
  std::int64_t evaluation_batch() const { return evaluation_batch_; }
  backend::MemoryReport memory() const;
  backend::Variables& kept() { return *variables_; }
  backend::Executable& training_program() { return *train_; }
  backend::Executable& evaluation_program() { return *evaluate_; }

  // After a step that was not finite: the first layer, in order, whose output is not, for the same
  // batch;
  // "" when all are finite. Names a parameter when one is not finite itself. `input` as in step_on.
  std::string find_not_finite(std::int64_t samples, const void* input, const void* labels,
                              const backend::Scalars& scalars);

 private:
  void build();
  graph::Graph model_, rest_;  // rest_: what comes after the prefix, or the whole model
  backend::Backend& backend_;
  compile::Options options_;
  config::Optimizer optimizer_;
  Use use_;
  bool mixes_samples_ = false, evaluates_alone_ = false;
  std::unique_ptr<backend::Variables> variables_;
  std::unique_ptr<backend::Executable> train_, evaluate_;
  // The second where the first cuts batches up by the ranks, and evaluation has none.
  std::unique_ptr<FrozenPrefix> prefix_, evaluation_prefix_;
  std::string no_prefix_;
  bool prediction_ = false, has_penalty_ = false;
  graph::Graph probe_;  // of find_not_finite: the training model with all layers' outputs
  std::int64_t outputs_ = 0, image_bytes_ = 0, input_bytes_ = 0, label_bytes_ = 0;
  std::int64_t target_bytes_ = 0, batch_ = 0, evaluation_batch_ = 0;
  backend::CompileOptions compile_;
  std::vector<float> logits_, losses_;
  float penalty_ = 0;
};

}  // namespace trainer::engine
