// State dicts of PyTorch as the package safetensors saves them.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::test {

// Writes tensors as F32, and those with is_integer as I64.
inline void write_state_dict(const Path& path, const std::vector<checkpoint::Tensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::size_t end = 0;
  for (const checkpoint::Tensor& tensor : tensors) {
    const std::size_t begin = end;
    end += tensor.values.size() * (tensor.is_integer ? sizeof(std::int64_t) : sizeof(float));
    header[tensor.name] = {{"dtype", tensor.is_integer ? "I64" : "F32"},
                           {"shape", tensor.shape.dims()},
                           {"data_offsets", {begin, end}}};
  }
  std::ofstream file(path, std::ios::binary);
  const auto write = [&file](const auto& numbers) {
    file.write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof(numbers[0])));
  };
  const std::string text = header.dump();
  write(std::vector<std::uint64_t>{text.size()});
  write(text);
  for (const checkpoint::Tensor& tensor : tensors) {
    if (tensor.is_integer) {
      write(std::vector<std::int64_t>(tensor.values.begin(), tensor.values.end()));
    } else {
      write(tensor.values);
    }
  }
}

}  // namespace trainer::test
