#include "commands/data/sheet.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/canvas.h"
#include "base/formats/json.h"
#include "base/text.h"
#include "data/open.h"
#include "data/samples/mix.h"
#include "data/samples/sampler.h"

namespace trainer::commands {
namespace {

constexpr int kGap = 4;

// Returns "cat", or for a mixed sample "cat 70% dog 30%" with the larger share first.
std::string label_text(const std::vector<float>& shares, const std::vector<std::string>& classes) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  if (shares[order[0]] == 1) return classes[order[0]];
  std::string text;
  for (const std::size_t c : order) {
    if (shares[c] == 0) continue;
    text += concat(text.empty() ? "" : " ", classes[c], ' ', std::lround(100 * shares[c]), '%');
  }
  return text;
}

// Returns "edema mass 70%" for several labels and their shares; "no label" without any.
std::string several_labels_text(const std::vector<float>& shares,
                                const std::vector<std::string>& classes) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (std::isnan(shares[i]) || shares[i] == 0) continue;
    names.push_back(shares[i] == 1 ? classes[i]
                                   : concat(classes[i], ' ', std::lround(100 * shares[i]), '%'));
  }
  return names.empty() ? "no label" : join(names, " ");
}

// Returns the order in which training reads the samples.
data::Sampler training_order(const data::Dataset& set, const config::Data& config,
                             std::uint64_t seed) {
  if (config.sampling == config::Sampling::kUniform) return {set.size(), seed, config.shuffle};
  return data::balanced_sampler(set, seed);
}

// Returns the share of each class in a label of any kind; empty if its numbers are not classes.
std::vector<float> read_shares(const data::DatasetSpec& spec, const std::vector<std::byte>& label,
                               std::size_t classes) {
  std::vector<float> shares(classes);
  if (spec.label_is_index()) {
    std::int32_t index = 0;
    std::memcpy(&index, label.data(), sizeof index);
    shares[static_cast<std::size_t>(index)] = 1;
    return shares;
  }
  const auto width = static_cast<std::size_t>(spec.targets());
  if (width != classes && width != 1) return {};
  std::memcpy(shares.data(), label.data(), width * sizeof(float));
  if (spec.is_multi_label()) return shares;
  if (width == 1 && classes == 2) shares = {1 - shares[0], shares[0]};
  return shares;
}

}  // namespace

Bytes draw_tiles(const data::DatasetSpec& spec, int count,
                 const std::function<std::string(int tile, std::uint8_t* image)>& read) {
  const Shape& shape = spec.image_shape;
  const int height = static_cast<int>(shape[0]), width = static_cast<int>(shape[1]);
  const auto channels = static_cast<std::size_t>(shape[2]);
  const int columns = std::max(1, static_cast<int>(std::ceil(std::sqrt(count))));
  const int rows = (count + columns - 1) / columns;
  const int cell_width = width + kGap, cell_height = height + Canvas::kTextHeight + kGap;
  Canvas sheet(columns * cell_width + kGap, rows * cell_height + kGap);
  std::vector<std::uint8_t> image(spec.image_bytes());
  for (int i = 0; i < count; ++i) {
    const std::string caption = read(i, image.data());
    const int left = kGap + i % columns * cell_width, top = kGap + i / columns * cell_height;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const std::uint8_t* pixel =
            image.data() + static_cast<std::size_t>(y * width + x) * channels;
        const bool colours = channels == 3;
        sheet.set(left + x, top + y, {pixel[0], pixel[colours ? 1 : 0], pixel[colours ? 2 : 0]});
      }
    }
    sheet.text(left, top + height + 2, width, caption);
  }
  return sheet.png();
}

Bytes draw_sheet(const data::Dataset& set, const std::vector<std::string>& classes,
                 const config::Data& config, std::uint64_t seed, std::int64_t samples) {
  if (set.spec().image_type != DType::kUInt8) return {};
  const data::Sampler order = training_order(set, config, seed);
  std::vector<std::byte> label(set.spec().label_bytes());
  const auto read = [&](int i, std::uint8_t* image) -> std::string {
    set.get(order.index(0, i / config.repeats), i % config.repeats, image, label.data());
    const std::vector<float> shares = read_shares(set.spec(), label, classes.size());
    if (shares.empty()) return "";
    return set.spec().is_multi_label() ? several_labels_text(shares, classes)
                                       : label_text(shares, classes);
  };
  return draw_tiles(set.spec(), static_cast<int>(std::min(samples, set.size())), read);
}

void write_sheet(const config::Data& config, std::uint64_t seed, std::int64_t samples,
                 const std::string& path) {
  data::Datasets sets = data::open_datasets(config, seed, Split::kTrain);
  const bool has_classes = sets.label_is_index || sets.train->spec().is_multi_label();
  if (sets.image_type != DType::kUInt8 || !has_classes) {
    throw ConfigError(config.loc,
                      "data: a sheet can only be drawn of images of bytes with classes or labels");
  }
  sets.train =
      data::mix_samples(std::move(sets.train), config.train.augment, sets.num_classes, seed);
  write_file_atomic(path, draw_sheet(*sets.train, sets.classes, config, seed, samples));
}

std::string sheet_json(const std::string& path) {
  const nlohmann::ordered_json line{{"event", "sheet"}, {"path", path}};
  return to_json_line(line) + '\n';
}

}  // namespace trainer::commands
