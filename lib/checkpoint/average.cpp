#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace trainer::checkpoint {
namespace {

// Without optimizer slots ("dense/kernel/m" of "dense/kernel"), whose mean has no use.
void remove_slots(std::vector<Tensor>& tensors) {
  std::set<std::string> names;
  for (const Tensor& tensor : tensors) names.insert(tensor.name);
  std::erase_if(tensors, [&](const Tensor& tensor) {
    const std::size_t slash = tensor.name.rfind('/');
    return slash != std::string::npos && !tensor.name.ends_with("/average") &&
           names.contains(tensor.name.substr(0, slash));
  });
}

}  // namespace

std::vector<Saved> last_checkpoints(const Path& run, std::int64_t count) {
  const Path inner = run / "checkpoints";
  std::vector<Saved> saved = list_checkpoints(std::filesystem::is_directory(inner) ? inner : run);
  const auto found = static_cast<std::int64_t>(saved.size());
  if (found < count) {
    throw DataError(run, concat("has ", found, found == 1 ? " checkpoint" : " checkpoints",
                                ", but the average is to be of the last ", count,
                                "; run.keep of the config says how many a run keeps"));
  }
  saved.erase(saved.begin(), saved.end() - count);
  return saved;
}

TensorFile mean_of(const std::vector<Saved>& checkpoints) {
  TensorFile mean = read_safetensors(checkpoints.back().path);
  remove_slots(mean.tensors);
  std::int64_t taken = 1;
  for (std::size_t i = 0; i + 1 < checkpoints.size(); ++i) {
    const Path& path = checkpoints[i].path;
    std::map<std::string, Tensor> others;
    for (Tensor& tensor : read_safetensors(path).tensors) {
      others[tensor.name] = std::move(tensor);
    }
    const auto share = 1 / static_cast<double>(++taken);
    for (Tensor& tensor : mean.tensors) {
      const auto found = others.find(tensor.name);
      if (found == others.end() || found->second.shape != tensor.shape) {
        throw DataError(path, concat("cannot be averaged with ", checkpoints.back().path.string(),
                                     ": it has no ", tensor.name, " of shape ",
                                     to_string(tensor.shape), "; average fewer checkpoints"));
      }
      for (std::size_t k = 0; k < tensor.values.size(); ++k) {
        const auto so_far = static_cast<double>(tensor.values[k]);
        const auto value = static_cast<double>(found->second.values[k]);
        tensor.values[k] = static_cast<float>(so_far + (value - so_far) * share);
      }
    }
  }
  return mean;
}

}  // namespace trainer::checkpoint
