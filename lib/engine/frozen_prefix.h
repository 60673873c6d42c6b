// Runs the frozen layers at the start of a model as a separate program: images -> features.
// Reasons: lib/decisions/engine.md#the-frozen-prefix-is-its-own-program.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "backend/backend.h"
#include "compile/compile.h"

namespace trainer::engine {

class FrozenPrefix {
 public:
  // A call has at most `options.max_samples` samples. `variables` must outlive the prefix.
  FrozenPrefix(const compile::FrozenSplit& split, const compile::Options& precision,
               backend::Backend& backend, backend::Variables& variables,
               backend::CompileOptions options);

  // Enqueues the computation of the features of `samples` images. Returns their device memory (rows
  // packed, of type()), which the next call overwrites. A sample's features depend on no other
  // sample. `all_samples`: samples of the calls of all ranks; 0: of this one.
  backend::Span launch(std::int64_t samples, backend::Span images, std::int64_t all_samples,
                       backend::Stream& stream);
  // The memory that launch() fills.
  backend::Span features() const { return features_.span(); }

  const Shape& shape() const { return shape_; }        // the shape of one sample
  DType type() const { return type_; }                 // the type of activations
  const std::string& layer() const { return layer_; }  // its output is the features
  std::int64_t bytes() const { return static_cast<std::int64_t>(features_.bytes()); }
  backend::Executable& program() const { return *program_; }
  // Returns a hash of everything that the features depend on besides the images: the layers and
  // their current weights, the precision, the batch size, and the backend.
  std::string key() const;

 private:
  backend::Backend& backend_;
  backend::Variables& variables_;
  std::unique_ptr<backend::Executable> program_;
  std::string layer_, text_;       // text_: the program's graph
  std::set<std::string> weights_;  // names of the variables it reads
  Shape shape_;
  DType type_ = DType::kFloat32;
  backend::Buffer features_;
};

}  // namespace trainer::engine
