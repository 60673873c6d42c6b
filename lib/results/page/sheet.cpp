#include "results/page/sheet.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/formats/canvas.h"
#include "base/formats/json.h"
#include "base/text.h"
#include "data/open.h"
#include "data/samples/mix.h"
#include "data/samples/sampler.h"

namespace trainer::results {
namespace {

constexpr int kGap = 4;
constexpr int kMaxTextWidth = 120;  // pixels for which a cell becomes wider than its image

// Returns "cat", or for a mixed sample "cat 70% dog 30%" with the larger share first.
std::string label_text(const std::vector<float>& shares, const std::vector<std::string>& classes) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
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
    shares[index] = 1;
    return shares;
  }
  const std::size_t width = spec.targets();
  if (width != classes && width != 1) return {};
  std::memcpy(shares.data(), label.data(), width * sizeof(float));
  if (spec.is_multi_label()) return shares;
  if (width == 1 && classes == 2) shares = {1 - shares[0], shares[0]};
  return shares;
}

// Returns the first class with a share; the number of classes without any.
std::size_t find_first_class(const std::vector<float>& shares) {
  const auto found =
      std::ranges::find_if(shares, [](float share) { return std::isfinite(share) && share > 0; });
  return found - shares.begin();
}

// Returns the class by which a sample is ordered: that of the largest share, of several labels the
// first one.
std::size_t find_class(const std::vector<float>& shares, bool is_multi_label) {
  if (is_multi_label || shares.empty()) return find_first_class(shares);
  return std::ranges::max_element(shares) - shares.begin();
}

// Returns the end of a text that fits into a width.
std::string fitting_end(const std::string& text, int width) {
  // A letter has at least one pixel.
  const std::size_t most = width;
  std::size_t first = text.size() > most ? text.size() - most : 0;
  while (first < text.size() && Canvas::text_width(text.substr(first)) > width) ++first;
  return text.substr(first);
}

// Returns the width of the longest line, at most kMaxTextWidth.
int find_text_width(const std::vector<Tile>& tiles) {
  int width = 0;
  for (const Tile& tile : tiles) {
    for (const std::string& line : tile.lines) {
      // A letter has at least one pixel.
      const std::string start = line.substr(0, kMaxTextWidth);
      width = std::max(width, Canvas::text_width(start));
    }
  }
  return std::min(width, kMaxTextWidth);
}

void draw_image(Canvas& sheet, int left, int top, const Shape& shape,
                const std::vector<std::uint8_t>& image) {
  const int height = static_cast<int>(shape[0]), width = static_cast<int>(shape[1]);
  const std::size_t channels = shape[2];
  const bool has_colours = channels == 3;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const std::uint8_t* pixel = image.data() + static_cast<std::size_t>(y * width + x) * channels;
      sheet.set(left + x, top + y,
                {pixel[0], pixel[has_colours ? 1 : 0], pixel[has_colours ? 2 : 0]});
    }
  }
}

}  // namespace

Bytes draw_tiles(const Shape& shape, const std::vector<Tile>& tiles) {
  const int count = static_cast<int>(tiles.size());
  const int height = static_cast<int>(shape[0]);
  const int width = std::max(static_cast<int>(shape[1]), find_text_width(tiles));
  std::size_t lines = 1;
  for (const Tile& tile : tiles) lines = std::max(lines, tile.lines.size());
  const int columns = std::max(1, static_cast<int>(std::ceil(std::sqrt(count))));
  const int rows = (count + columns - 1) / columns;
  const int cell_width = width + kGap;
  const int cell_height = height + static_cast<int>(lines) * Canvas::kTextHeight + kGap;
  Canvas sheet(columns * cell_width + kGap, rows * cell_height + kGap);
  for (int i = 0; i < count; ++i) {
    const Tile& tile = tiles[i];
    const int left = kGap + i % columns * cell_width, top = kGap + i / columns * cell_height;
    draw_image(sheet, left, top, shape, tile.image);
    int y = top + height + 2;
    for (std::size_t line = 0; line < tile.lines.size(); ++line) {
      const bool is_last = line > 0 && line + 1 == tile.lines.size();
      sheet.text(left, y, width, is_last ? fitting_end(tile.lines[line], width) : tile.lines[line]);
      y += Canvas::kTextHeight;
    }
  }
  return sheet.png();
}

Bytes draw_sheet(const data::Dataset& set, const std::vector<std::string>& classes,
                 const config::Data& config, std::uint64_t seed, std::int64_t samples) {
  const data::DatasetSpec& spec = set.spec();
  if (spec.image_type != DType::kUInt8) return {};
  const data::Sampler order = training_order(set, config, seed);
  std::vector<std::byte> label(spec.label_bytes());
  std::vector<std::pair<std::size_t, Tile>> tiles;  // by class
  for (std::int64_t i = 0; i < std::min(samples, set.size()); ++i) {
    const std::int64_t index = order.index(0, i / config.repeats);
    Tile tile;
    tile.image.resize(spec.image_bytes());
    set.get(index, i % config.repeats, tile.image.data(), label.data());
    const std::vector<float> shares = read_shares(spec, label, classes.size());
    if (!shares.empty()) {
      tile.lines.push_back(spec.is_multi_label() ? several_labels_text(shares, classes)
                                                 : label_text(shares, classes));
    }
    if (config::is_image_format(config.format)) {
      tile.lines.push_back(Path(set.describe(index)).filename().string());
    }
    tiles.emplace_back(find_class(shares, spec.is_multi_label()), std::move(tile));
  }
  std::ranges::stable_sort(tiles, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Tile> ordered;
  for (auto& [label_class, tile] : tiles) ordered.push_back(std::move(tile));
  return draw_tiles(spec.image_shape, ordered);
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

}  // namespace trainer::results
