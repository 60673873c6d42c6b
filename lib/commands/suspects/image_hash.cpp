#include "commands/suspects/image_hash.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

namespace trainer::commands {
namespace {

std::vector<float> make_grey(std::span<const std::uint8_t> pixels, int channels) {
  const std::size_t step = channels;
  std::vector<float> grey(pixels.size() / step);
  for (std::size_t i = 0; i < grey.size(); ++i) {
    const std::uint8_t* p = pixels.data() + i * step;
    if (channels == 3) {
      grey[i] = 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
      continue;
    }
    float sum = 0;
    for (std::size_t c = 0; c < step; ++c) sum += p[c];
    grey[i] = sum / static_cast<float>(channels);
  }
  return grey;
}

// A pixel of a smaller or larger row and its share of a new pixel.
struct Share {
  int source;
  float weight;
};

// Returns the shares of the source pixels that each of `to` new pixels covers.
std::vector<std::vector<Share>> find_shares(int from, int to) {
  std::vector<std::vector<Share>> shares(to);
  const double scale = static_cast<double>(from) / to;
  for (int i = 0; i < to; ++i) {
    const double low = i * scale, high = (i + 1) * scale;
    for (int s = static_cast<int>(low); s < from && s < high; ++s) {
      const double covered = std::min(high, s + 1.0) - std::max(low, static_cast<double>(s));
      if (covered > 0) {
        shares[i].push_back({s, static_cast<float>(covered / scale)});
      }
    }
  }
  return shares;
}

// Resizes by the mean over the area that each new pixel covers.
std::vector<float> resize_area(const std::vector<float>& grey, int height, int width, int rows,
                               int columns) {
  const auto across = find_shares(width, columns), down = find_shares(height, rows);
  std::vector<float> result;
  for (const std::vector<Share>& vertical : down) {
    for (const std::vector<Share>& horizontal : across) {
      float sum = 0;
      for (const Share& v : vertical) {
        for (const Share& h : horizontal) {
          sum += v.weight * h.weight * grey[v.source * width + h.source];
        }
      }
      result.push_back(sum);
    }
  }
  return result;
}

}  // namespace

PictureHash hash_picture(std::span<const std::uint8_t> pixels, int height, int width,
                         int channels) {
  constexpr int kRows = 8, kColumns = 9;
  constexpr float kGreyRounding = 0.01f;  // areas of one level give zeros
  const std::vector<float> grey = make_grey(pixels, channels);
  PictureHash hash;
  const std::vector<float> small = resize_area(grey, height, width, kRows, kColumns);
  for (std::size_t y = 0; y < kRows; ++y) {
    for (std::size_t x = 0; x + 1 < kColumns; ++x) {
      const bool rises = small[y * kColumns + x + 1] > small[y * kColumns + x] + kGreyRounding;
      hash.bits = hash.bits << 1 | (rises ? 1 : 0);
    }
  }
  const std::vector<float> levels =
      resize_area(grey, height, width, Thumbnail::kSide, Thumbnail::kSide);
  std::ranges::transform(levels, hash.thumbnail.grey.begin(),
                         [](float x) { return static_cast<std::uint8_t>(std::lround(x)); });
  return hash;
}

int find_distance(std::uint64_t a, std::uint64_t b) { return std::popcount(a ^ b); }

bool show_same_picture(const Thumbnail& a, const Thumbnail& b) {
  constexpr double kCorrelation = 0.985;
  constexpr double kMinDeviation = 2, kMaxDifference = 2;  // grey levels of 255
  constexpr auto kPixels = static_cast<double>(std::tuple_size_v<decltype(Thumbnail::grey)>);
  // Sums of integers, which the compiler may reorder.
  std::int32_t sum_a = 0, sum_b = 0, sum_aa = 0, sum_bb = 0, sum_ab = 0, difference = 0;
  for (std::size_t i = 0; i < a.grey.size(); ++i) {
    const std::int32_t x = a.grey[i], y = b.grey[i];
    sum_a += x;
    sum_b += y;
    sum_aa += x * x;
    sum_bb += y * y;
    sum_ab += x * y;
    difference += x > y ? x - y : y - x;
  }
  const double mean_a = sum_a / kPixels, mean_b = sum_b / kPixels;
  const double variance_a = sum_aa / kPixels - mean_a * mean_a;
  const double variance_b = sum_bb / kPixels - mean_b * mean_b;
  if (std::min(variance_a, variance_b) < kMinDeviation * kMinDeviation) {
    return difference / kPixels <= kMaxDifference;
  }
  const double covariance = sum_ab / kPixels - mean_a * mean_b;
  return covariance >= kCorrelation * std::sqrt(variance_a * variance_b);
}

}  // namespace trainer::commands
