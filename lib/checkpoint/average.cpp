#include "checkpoint/average.h"

#include <map>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/safetensors.h"

namespace trainer::checkpoint {
namespace {

// Removes optimizer slots, whose mean has no use.
void remove_optimizer_slots(std::vector<Tensor>& tensors) {
  std::set<std::string> names;
  for (const Tensor& tensor : tensors) names.insert(tensor.name);
  std::erase_if(tensors, [&](const Tensor& tensor) {
    return is_slot(tensor.name, names) && !tensor.name.ends_with("/average");
  });
}

// Returns nothing if the file does not exist any more.
std::optional<TensorFile> read_if_there(const Path& path, bool is_newest) {
  try {
    return read_checkpoint(path);
  } catch (const DataError& error) {
    if (!std::filesystem::exists(path)) return std::nullopt;
    throw Error(kExitData, error.what(),
                is_newest ? "; move it away to average those before it"
                          : "; average fewer, without this one");
  }
}

// Adds another file to the mean with the weight `share`; the mean so far keeps 1 - share.
void add_to_mean(std::vector<Tensor>& mean, const TensorFile& file, double share, const Path& path,
                 const Path& newest) {
  std::map<std::string, const Tensor*> others;
  for (const Tensor& tensor : file.tensors) others[tensor.name] = &tensor;
  for (Tensor& tensor : mean) {
    const auto found = others.find(tensor.name);
    if (found == others.end() || found->second->shape != tensor.shape) {
      throw DataError(path, "cannot be averaged with ", newest.string(), ": it has no ",
                      tensor.name, " of shape ", to_string(tensor.shape),
                      "; average fewer checkpoints");
    }
    for (std::size_t k = 0; k < tensor.values.size(); ++k) {
      const auto so_far = static_cast<double>(tensor.values[k]);
      const auto value = static_cast<double>(found->second->values[k]);
      tensor.values[k] = static_cast<float>(so_far + (value - so_far) * share);
    }
  }
}

}  // namespace

bool is_slot(const std::string& name, const std::set<std::string>& names) {
  const std::size_t slash = name.rfind('/');
  return slash != std::string::npos && names.contains(name.substr(0, slash));
}

std::vector<Saved> last_checkpoints(const Path& run, std::int64_t count) {
  std::vector<Saved> saved = list_checkpoints(find_checkpoints(run));
  const auto found = std::ssize(saved);
  if (found < count) {
    throw DataError(run, "has ", counted(found, "checkpoint"),
                    ", but the average is to be of the last ", count,
                    "; run.keep of the config is the number that a run keeps");
  }
  saved.erase(saved.begin(), saved.end() - count);
  return saved;
}

std::optional<TensorFile> average_checkpoints(const std::vector<Saved>& checkpoints) {
  const Path& newest = checkpoints.back().path;
  std::optional<TensorFile> mean = read_if_there(newest, true);
  if (!mean) return std::nullopt;
  remove_optimizer_slots(mean->tensors);
  std::int64_t taken = 1;
  for (std::size_t i = 0; i + 1 < checkpoints.size(); ++i) {
    const Path& path = checkpoints[i].path;
    const std::optional<TensorFile> file = read_if_there(path, false);
    if (!file) return std::nullopt;
    add_to_mean(mean->tensors, *file, 1 / static_cast<double>(++taken), path, newest);
  }
  return mean;
}

}  // namespace trainer::checkpoint
