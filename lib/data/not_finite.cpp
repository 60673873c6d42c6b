#include "data/not_finite.h"

#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/finite.h"

namespace trainer::data {
namespace {

std::span<const float> floats(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::string files_of(const config::Data& config) {
  if (!config.train.path.empty()) return config.train.path;
  return config.path.empty() ? config.train.images : config.path;
}

}  // namespace

std::string find_not_finite(const config::Data& config, const Dataset& train) {
  const bool float_images = train.image_type() == DType::kFloat32;
  const bool float_labels = !train.label_is_index();
  if (!train.in_memory() || !(float_images || float_labels)) return "";
  std::vector<std::byte> image(static_cast<std::size_t>(train.image_shape().elements()) *
                               size_of(train.image_type()));
  std::vector<std::byte> label(static_cast<std::size_t>(train.label_width()) * sizeof(float));
  std::string first;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < train.size(); ++i) {
    train.get(i, image.data(), label.data());
    const bool bad_image = float_images && !all_finite(floats(image));
    const bool bad_label = float_labels && !all_finite(floats(label));
    if (!bad_image && !bad_label) continue;
    if (count++ == 0) {
      first = concat(bad_image ? "" : "the label of ", "sample ", train.describe(i), " (from 0)");
    }
  }
  if (count == 0) return "";
  return concat(
      files_of(config), ": ", first, " holds NaN or infinity",
      count > 1 ? concat(", as do ", count - 1, " more of the ", train.size(), " training samples")
                : "");
}

}  // namespace trainer::data
