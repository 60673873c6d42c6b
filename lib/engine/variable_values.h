// The values of all variables of a model, between a device and the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"

namespace trainer::engine {

// Fills all variables from their initialisers.
void initialise(backend::Variables& variables, std::uint64_t seed);

// Sets those of `tensors` that are variables, and the weight averages that start as copies of them.
void write_known(backend::Variables& variables, const std::vector<checkpoint::Tensor>& tensors);

// All variables, in the order of the graph.
std::vector<checkpoint::Tensor> read_all(const backend::Variables& variables);

// SHA-256 over parameters and statistics in name order.
std::string parameters_sha256(const backend::Variables& variables);

enum class UnknownTensors { kRefused, kIgnored };

// Sets all variables from the file at `path`. Throws DataError naming every tensor that is missing,
// has another shape or, where such are refused, has no variable.
void load_all(backend::Variables& variables, const checkpoint::TensorFile& file,
              const std::string& path, UnknownTensors unknown);

}  // namespace trainer::engine
