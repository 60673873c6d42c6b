// The frozen layers at the start of a model, as a program of their own: images -> features.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "compile/compile.h"

namespace trainer::engine {

class FrozenPrefix {
 public:
  // `options.max_samples` samples a call. `variables` must outlive it.
  FrozenPrefix(const compile::FrozenSplit& split, const compile::Options& precision,
               backend::Backend& backend, backend::Variables& variables,
               backend::CompileOptions options);

  // The features of so many images, rows packed, valid until the next call. A sample's features do
  // not depend on the others of the call. `all_samples`: those of all ranks' calls; 0: these.
  const void* run(std::int64_t samples, const void* images, std::int64_t all_samples = 0);

  const Shape& shape() const { return shape_; }        // of one sample
  DType type() const { return type_; }                 // float32 or bfloat16
  const std::string& layer() const { return layer_; }  // whose output the features are
  std::int64_t bytes() const;                          // of its own buffers
  backend::Executable& program() const { return *program_; }
  // A hash of everything that the features depend on beside the images: the layers and their
  // weights as they are now, the precision, the batch size, and what computes.
  std::string key() const;

 private:
  backend::Backend& backend_;
  backend::Variables& variables_;
  std::unique_ptr<backend::Executable> program_;
  std::string layer_, text_;          // text_: the program's graph
  std::vector<std::string> weights_;  // names of the variables it reads
  Shape shape_;
  DType type_ = DType::kFloat32;
  std::vector<float> features_;
  std::vector<std::uint16_t> rounded_;  // the same as bfloat16
};

}  // namespace trainer::engine
