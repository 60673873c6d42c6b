// Draws digits as strokes. Each sample bends the skeleton of its digit (control points are moved,
// rotated, sheared, scaled and shifted), draws it with a pen of random width and darkness, and adds
// noise. A sample is a pure function of its index, except for the last bits of the sine and cosine
// of the C library.
#include "data/arrays/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/random.h"
#include "data/arrays/idx.h"

namespace trainer::data {
namespace {

constexpr int kDigitSide = 28;
constexpr int kDigitPixels = kDigitSide * kDigitSide;
constexpr std::uint64_t kSeed = 20;
constexpr float kPi = 3.14159265f;

struct Point {
  float x, y;
};
using Stroke = std::vector<Point>;
using Skeleton = std::vector<Stroke>;

// Returns an elliptic arc as a polyline; angles are in degrees, clockwise from the right, as y
// points down.
Stroke arc(float cx, float cy, float rx, float ry, float from, float to) {
  const int pieces = std::max(3, static_cast<int>(std::fabs(to - from) / 24));
  Stroke stroke;
  for (int i = 0; i <= pieces; ++i) {
    const float t =
        (from + (to - from) * static_cast<float>(i) / static_cast<float>(pieces)) * kPi / 180;
    stroke.push_back({cx + rx * std::cos(t), cy + ry * std::sin(t)});
  }
  return stroke;
}

Stroke join_strokes(Stroke a, const Stroke& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Two ways to write each digit, in the square [-1, 1] x [-1, 1].
const std::array<std::array<Skeleton, 2>, 10>& skeletons() {
  static const std::array<std::array<Skeleton, 2>, 10> kAll = {{
      {{{arc(0, 0, 0.6f, 0.95f, -90, 270)}, {arc(0, 0, 0.7f, 0.9f, -60, 292)}}},
      {{{{{0.05f, -0.95f}, {0, 0.95f}}}, {{{-0.35f, -0.6f}, {0.05f, -0.95f}, {0.05f, 0.95f}}}}},
      {{{join_strokes(arc(0, -0.45f, 0.55f, 0.5f, -170, 40), {{-0.6f, 0.95f}, {0.65f, 0.95f}})},
        {join_strokes(arc(0, -0.4f, 0.5f, 0.55f, -150, 50),
                      {{-0.3f, 0.65f}, {-0.55f, 0.85f}, {-0.2f, 0.75f}, {0.7f, 0.9f}})}}},
      {{{join_strokes(arc(0, -0.48f, 0.5f, 0.45f, -150, 80), arc(0, 0.45f, 0.58f, 0.5f, -80, 150))},
        {{{-0.5f, -0.9f}, {0.5f, -0.9f}, {0, -0.15f}}, arc(-0.05f, 0.4f, 0.58f, 0.55f, -85, 145)}}},
      {{{{{0.25f, -0.95f}, {-0.6f, 0.3f}, {0.65f, 0.3f}}, {{0.3f, -0.3f}, {0.3f, 0.95f}}},
        {{{-0.5f, -0.9f}, {-0.55f, 0.05f}, {0.5f, 0.05f}}, {{0.5f, -0.9f}, {0.45f, 0.95f}}}}},
      {{{join_strokes({{0.55f, -0.9f}, {-0.4f, -0.9f}, {-0.48f, -0.1f}},
                      arc(0, 0.38f, 0.58f, 0.55f, -120, 145))},
        {join_strokes({{-0.4f, -0.85f}, {-0.45f, -0.1f}}, arc(0, 0.4f, 0.55f, 0.52f, -110, 140)),
         {{-0.4f, -0.85f}, {0.6f, -0.95f}}}}},
      {{{join_strokes({{0.35f, -0.95f}, {-0.3f, -0.35f}}, arc(0, 0.4f, 0.52f, 0.53f, -160, 190))},
        {join_strokes(arc(0.1f, 0, 0.65f, 0.93f, -70, -190),
                      arc(0, 0.45f, 0.52f, 0.48f, 180, -150))}}},
      {{{{{-0.6f, -0.9f}, {0.6f, -0.9f}, {-0.1f, 0.95f}}},
        {{{-0.55f, -0.6f}, {-0.5f, -0.9f}, {0.6f, -0.85f}, {0.1f, 0}, {-0.15f, 0.95f}},
         {{-0.25f, 0.05f}, {0.45f, 0}}}}},
      {{{arc(0, -0.47f, 0.45f, 0.45f, 90, 450), arc(0, 0.47f, 0.55f, 0.48f, -90, 270)},
        {{{0.4f, -0.8f},
          {-0.1f, -0.95f},
          {-0.45f, -0.6f},
          {0.4f, 0.35f},
          {0.4f, 0.75f},
          {0, 0.95f},
          {-0.45f, 0.7f},
          {-0.35f, 0.3f},
          {0.45f, -0.5f},
          {0.4f, -0.8f}}}}},
      {{{arc(0, -0.4f, 0.52f, 0.52f, 0, 360), {{0.52f, -0.4f}, {0.35f, 0.95f}}},
        {arc(-0.05f, -0.42f, 0.5f, 0.5f, -20, 330),
         join_strokes({{0.48f, -0.7f}}, arc(-0.1f, 0.2f, 0.6f, 0.73f, -10, 110))}}},
  }};
  return kAll;
}

struct Warp {
  float xx, xy, yx, yy, dx, dy;
  Point operator()(Point p) const { return {xx * p.x + xy * p.y + dx, yx * p.x + yy * p.y + dy}; }
};

Warp random_warp(Random& random) {
  const float angle = random.uniform(-0.30f, 0.30f);
  const float shear = random.uniform(-0.30f, 0.30f);
  const float width = random.uniform(5.5f, 9.5f);
  const float height = random.uniform(7.5f, 10.5f);
  const float c = std::cos(angle);
  const float s = std::sin(angle);
  // Scale, then shear, then rotate, then shift.
  return {c * width,
          (c * shear - s) * height,
          s * width,
          (s * shear + c) * height,
          13.5f + random.uniform(-2.2f, 2.2f),
          13.5f + random.uniform(-2.2f, 2.2f)};
}

// Raises each pixel near the segment to the coverage of a round pen of the given radius.
void draw(std::array<float, kDigitPixels>& canvas, Point a, Point b, float radius) {
  const float reach = radius + 1;
  const auto clip = [](float v) { return std::clamp(static_cast<int>(v), 0, kDigitSide - 1); };
  const int x0 = clip(std::floor(std::min(a.x, b.x) - reach));
  const int x1 = clip(std::ceil(std::max(a.x, b.x) + reach));
  const int y0 = clip(std::floor(std::min(a.y, b.y) - reach));
  const int y1 = clip(std::ceil(std::max(a.y, b.y) + reach));
  const float dx = b.x - a.x;
  const float dy = b.y - a.y;
  const float scale = 1 / std::max(dx * dx + dy * dy, 1e-6f);
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const float px = static_cast<float>(x) - a.x;
      const float py = static_cast<float>(y) - a.y;
      const float t = std::clamp((px * dx + py * dy) * scale, 0.0f, 1.0f);
      const float ex = px - t * dx;
      const float ey = py - t * dy;
      const float covered = std::clamp(radius + 0.5f - std::sqrt(ex * ex + ey * ey), 0.0f, 1.0f);
      float& pixel = canvas[y * kDigitSide + x];
      pixel = std::max(pixel, covered);
    }
  }
}

// Draws one digit. The noise is the sum of two random bytes, which is much cheaper than a normal
// distribution.
void draw_digit(int digit, Random& random, std::uint8_t* image) {
  const Skeleton& skeleton = skeletons()[digit][random.below(2)];
  const Warp warp = random_warp(random);
  const float radius = random.uniform(0.5f, 1.6f);
  const float ink = random.uniform(120, 255);
  const float grain = random.uniform(0, 0.35f);

  // A smooth deformation of the plane moves neighbouring points together, as a hand does; each
  // point has jitter in addition.
  const float bend_x = random.uniform(-0.18f, 0.18f);
  const float bend_y = random.uniform(-0.18f, 0.18f);
  const float phase = random.uniform(0, 2 * kPi);
  std::array<float, kDigitPixels> canvas{};
  for (const Stroke& stroke : skeleton) {
    Point last{};
    for (std::size_t i = 0; i < stroke.size(); ++i) {
      Point p = stroke[i];
      p.x += bend_x * std::sin(2.5f * stroke[i].y + phase) + random.uniform(-0.07f, 0.07f);
      p.y += bend_y * std::sin(2.5f * stroke[i].x + phase) + random.uniform(-0.07f, 0.07f);
      p = warp(p);
      if (i > 0) draw(canvas, last, p, radius);
      last = p;
    }
  }
  for (std::size_t i = 0; i < canvas.size(); i += 2) {
    std::uint32_t bits = random.next_u32();
    for (std::size_t j = i; j < i + 2; ++j, bits >>= 16) {
      const float noise = static_cast<float>((bits & 255) + (bits >> 8 & 255)) - 255;
      image[j] = static_cast<std::uint8_t>(
          std::clamp(canvas[j] * ink + noise * grain + 0.5f, 0.0f, 255.0f));
    }
  }
}

std::vector<std::uint8_t> idx_header(std::uint8_t rank, std::uint32_t count) {
  std::vector<std::uint8_t> bytes{0, 0, 8, rank};
  const std::uint32_t dims[] = {count, kDigitSide, kDigitSide};
  for (std::size_t i = 0; i < rank; ++i) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(dims[i] >> shift));
    }
  }
  return bytes;
}

// Returns whether a file of the set has to be written. The file exists already if a process was
// killed between the two files of a part. Throws DataError for another file of its name, which
// belongs to a set whose second file is missing.
bool is_missing(const Path& folder, const std::string& stem, const std::string& kind,
                std::span<const std::uint8_t> content) {
  const Path found = find_idx(folder, stem, kind);
  if (found.empty()) return true;
  std::error_code error;
  if (std::filesystem::file_size(found, error) == content.size() && !error) {
    const Bytes old = read_file(found);
    if (std::equal(old.begin(), old.end(), content.begin(), content.end())) return false;
  }
  throw DataError(
      found.string(),
      "belongs to another data set, whose file of images or labels is missing; format: digits "
      "would mix both. Put the missing file back, or give format: digits another data.path");
}

// The contents of the two IDX files of a split.
struct DrawnFiles {
  std::vector<std::uint8_t> images, labels;
};

DrawnFiles draw_part(Split split, std::int64_t count) {
  const std::uint64_t part = split == Split::kTrain ? 10 : 11;
  DrawnFiles drawn{idx_header(3, static_cast<std::uint32_t>(count)),
                   idx_header(1, static_cast<std::uint32_t>(count))};
  const std::size_t start = drawn.images.size();
  drawn.images.resize(start + static_cast<std::size_t>(count) * kDigitPixels);
  for (std::int64_t i = 0; i < count; ++i) {
    Random random(kSeed, Stream::kSynthetic, part, static_cast<std::uint64_t>(i));
    const auto digit = static_cast<int>(random.below(10));
    draw_digit(digit, random,
               drawn.images.data() + start + static_cast<std::size_t>(i) * kDigitPixels);
    drawn.labels.push_back(static_cast<std::uint8_t>(digit));
  }
  return drawn;
}

std::string find_prefix(Split split) { return split == Split::kTrain ? "train" : "t10k"; }

void write_part(const Path& folder, Split split, std::int64_t count) {
  const std::string prefix = find_prefix(split);
  const auto& [images, labels] = draw_part(split, count);
  const bool writes_images = is_missing(folder, prefix + "-images", "idx3-ubyte", images);
  const bool writes_labels = is_missing(folder, prefix + "-labels", "idx1-ubyte", labels);
  if (writes_images) {
    write_file_atomic(folder / (prefix + "-images-idx3-ubyte"),
                      std::span<const std::uint8_t>(images));
  }
  if (writes_labels) {
    write_file_atomic(folder / (prefix + "-labels-idx1-ubyte"),
                      std::span<const std::uint8_t>(labels));
  }
}

Array to_array(const std::vector<std::uint8_t>& file) {
  Buffer content(file.size());
  std::ranges::copy(file, content.data());
  return parse_idx("the drawn digits", std::move(content));
}

}  // namespace

bool has_digits(const std::string& folder, Split split) {
  const std::string prefix = find_prefix(split);
  return !find_idx(folder, prefix + "-images", "idx3-ubyte").empty() &&
         !find_idx(folder, prefix + "-labels", "idx1-ubyte").empty();
}

void generate_digits(const std::string& folder, std::int64_t train_samples,
                     std::int64_t test_samples) {
  if (!has_digits(folder, Split::kTrain)) {
    std::filesystem::create_directories(folder);
    write_part(folder, Split::kTrain, train_samples);
  }
  if (!has_digits(folder, Split::kTest)) write_part(folder, Split::kTest, test_samples);
}

DrawnDigits draw_digits(Split split) {
  const DrawnFiles drawn = draw_part(split, split == Split::kTrain ? kTrainDigits : kTestDigits);
  return {to_array(drawn.images), to_array(drawn.labels)};
}

}  // namespace trainer::data
