#include "data/not_finite.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/numbers/finite.h"
#include "base/text.h"

namespace trainer::data {
namespace {

std::span<const float> floats(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::string find_source(const config::Data& config, Split split) {
  const config::SplitFiles& files = config.files(split);
  if (!files.path.empty()) return files.path;
  return config.path.empty() ? files.images : config.path;
}

}  // namespace

std::string find_not_finite(const config::Data& config, Split split, const Dataset& dataset) {
  const DatasetSpec& spec = dataset.spec();
  const bool float_images = spec.image_type == DType::kFloat32;
  const bool float_labels = spec.label_kind == LabelKind::kTargets;  // NaN is an unknown label
  if (!spec.in_memory || !(float_images || float_labels)) return "";
  std::vector<std::byte> image(spec.image_bytes()), label(spec.label_bytes());
  std::string first;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    dataset.get(i, image.data(), label.data());
    const bool bad_image = float_images && !all_finite(floats(image));
    const bool bad_label = float_labels && !all_finite(floats(label));
    if (!bad_image && !bad_label) continue;
    if (count++ == 0) {
      first = concat(bad_image ? "" : "the label of ", "sample ", printable(dataset.describe(i)),
                     " (from 0)");
    }
  }
  if (count == 0) return "";
  return concat(printable(find_source(config, split)), ": ", first, " holds NaN or infinity",
                count > 1
                    ? concat(", as do ", count - 1, " more of the ", dataset.size(), " ",
                             split == Split::kTrain ? "training" : to_string(split), " samples")
                    : "");
}

std::string blame_samples(const Dataset& train, std::span<const std::int64_t> indices,
                          std::span<const float> losses) {
  constexpr std::size_t kMaxNames = 5;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!std::isfinite(losses[i])) names.push_back(printable(train.describe(indices[i])));
  }
  const std::size_t all = indices.size(), count = names.size();
  if (count == 0) return concat("but for none of the last ", all, " samples of this process");
  return concat("for ", count == all ? "all " : concat(count, " of the "), all,
                " samples of the batch: ", join_first(std::move(names), kMaxNames));
}

}  // namespace trainer::data
