// State dicts of PyTorch as the package safetensors saves them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::test {

// Writes tensors as F32, and those with is_integer as I64.
inline void write_state_dict(const Path& path, const std::vector<checkpoint::Tensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const checkpoint::Tensor& tensor : tensors) {
    const std::size_t begin = data.size();
    const auto append = [&](const auto& numbers) {
      data.append(reinterpret_cast<const char*>(numbers.data()),
                  numbers.size() * sizeof(numbers[0]));
    };
    if (tensor.is_integer) {
      append(std::vector<std::int64_t>(tensor.values.begin(), tensor.values.end()));
    } else {
      append(tensor.values);
    }
    header[tensor.name] = {{"dtype", tensor.is_integer ? "I64" : "F32"},
                           {"shape", tensor.shape.dims()},
                           {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  write_file_atomic(
      path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
}

}  // namespace trainer::test
