// Copies the values of all variables of a model between a device and the host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/tensor_file.h"

namespace trainer::engine {

// Fills all variables from their initialisers.
void initialise(backend::Variables& variables, std::uint64_t seed);

// Sets the variables that are among `tensors`, and the weight averages that start as copies of
// them. Ignores other tensors.
void write_known(backend::Variables& variables, const std::vector<checkpoint::Tensor>& tensors);

// Returns the variables for which is_wanted() is true, all by default, in the order of the graph.
std::vector<checkpoint::Tensor> read_all(
    const backend::Variables& variables, const std::function<bool(const graph::Value&)>& is_wanted =
                                             [](const graph::Value&) { return true; });

// Returns the SHA-256 over parameters and statistics in the order of their names.
std::string parameters_sha256(const backend::Variables& variables);

enum class UnknownTensors { kRejected, kIgnored };

// Sets all variables from the file at `path`. Throws DataError naming every tensor that is missing
// or has another shape, and with kRejected every tensor that is not a variable.
void load_all(backend::Variables& variables, const checkpoint::TensorFile& file,
              const std::string& path, UnknownTensors unknown);

}  // namespace trainer::engine
