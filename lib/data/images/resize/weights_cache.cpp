#include "data/images/resize/weights_cache.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace trainer::data {
namespace {

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// The cubic of Keys with a = -0.5, as in Pillow and tf.image.resize.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
  return 0;
}

// Rounds so that the sum of the integers is exactly 2^shift, which keeps an area of one colour.
void quantise(std::span<const double> exact, int shift, std::int16_t* out) {
  const auto one = 1 << shift;
  int sum = 0;
  std::size_t largest = 0;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    out[k] = static_cast<std::int16_t>(std::lround(exact[k] * one));
    sum += out[k];
    if (exact[k] > exact[largest]) largest = k;
  }
  out[largest] = static_cast<std::int16_t>(out[largest] + one - sum);
}

ResizeWeights make_weights(const ResizeAxis& axis, config::Interpolation interpolation,
                           bool antialias, int multiple) {
  const bool bilinear = interpolation == config::Interpolation::kBilinear;
  const double scale = (axis.input - axis.cut_before - axis.cut_after) / axis.size;
  const double widen = antialias ? std::max(scale, 1.0) : 1.0;
  const double support = (bilinear ? 1 : 2) * widen;
  std::vector<double> exact;       // the weights of all outputs, one after the other
  std::vector<std::size_t> count;  // the number of weights of each output
  ResizeWeights result;
  double largest = 0;
  for (int i = 0; i < axis.output; ++i) {
    const double centre = axis.cut_before + (axis.skip + i + 0.5) * scale;
    const int first = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int last = std::min(static_cast<int>(centre + support + 0.5), axis.input);
    const std::size_t begin = exact.size();
    double sum = 0;
    for (int k = first; k < last; ++k) {
      const double at = (k - centre + 0.5) / widen;
      sum += exact.emplace_back(bilinear ? triangle(at) : cubic(at));
    }
    for (std::size_t k = begin; k < exact.size(); ++k) {
      largest = std::max(largest, std::abs(exact[k] /= sum));
    }
    result.first.push_back(first);
    count.push_back(exact.size() - begin);
    result.taps = std::max(result.taps, last - first);
  }
  result.taps = (result.taps + multiple - 1) / multiple * multiple;
  result.shift = largest < 0.999 ? 15 : 14;
  result.values.assign(count.size() * result.taps, 0);
  const double* at = exact.data();
  for (std::size_t i = 0; i < count.size(); at += count[i++]) {
    quantise({at, count[i]}, result.shift,
             result.values.data() + i * static_cast<std::size_t>(result.taps));
  }
  return result;
}

template <class T>
std::size_t count_bytes(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

std::size_t count_bytes(const ResizeWeights& weights) {
  return sizeof weights + count_bytes(weights.first) + count_bytes(weights.values) +
         count_bytes(weights.start) + count_bytes(weights.places) + count_bytes(weights.pairs);
}

}  // namespace

// The place of a number is that of the channel of its first tap.
void make_groups(ResizeWeights& weights, int channels) {
  const std::size_t pairs = weights.taps / kGroupTaps;
  const std::size_t numbers = weights.first.size() * channels;
  const std::size_t groups = (numbers + kGroup - 1) / kGroup;
  weights.start.assign(groups, 0);
  weights.places.assign(groups * 2 * kGroup, 0);
  weights.pairs.assign(groups * pairs * 2 * kGroup, 0);
  for (std::size_t i = 0; i < numbers; ++i) {
    const std::size_t group = i / kGroup, in_group = i % kGroup;
    const std::size_t x = i / static_cast<std::size_t>(channels);
    const int first = weights.first[x] * channels;
    if (in_group == 0) weights.start[group] = first;
    const int place =
        first - weights.start[group] + static_cast<int>(i % static_cast<std::size_t>(channels));
    if (place < 0 || place + channels >= 64) {
      return;
    }
    std::int16_t* places = &weights.places[(group * kGroup + in_group) * 2];
    places[0] = static_cast<std::int16_t>(place);
    places[1] = static_cast<std::int16_t>(place + channels);
    const std::int16_t* values = &weights.values[x * static_cast<std::size_t>(weights.taps)];
    for (std::size_t k = 0; k < pairs; ++k) {
      std::copy_n(values + 2 * k, 2, &weights.pairs[((group * pairs + k) * kGroup + in_group) * 2]);
    }
  }
  weights.grouped = true;
}

const ResizeWeights& WeightsCache::get(const WeightsKey& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found != entries_.end()) return found->weights;
  Entry entry;
  entry.key = key;
  if (key.group_channels > 0) {
    entry.weights = make_weights(key.axis, key.interpolation, key.antialias, kGroupTaps);
    make_groups(entry.weights, key.group_channels);
  }
  if (!entry.weights.grouped) {
    entry.weights = make_weights(key.axis, key.interpolation, key.antialias, key.multiple);
  }
  entry.bytes = count_bytes(entry.weights);
  bytes_ += entry.bytes;
  entries_.push_back(std::move(entry));
  while (entries_.size() > 1 && (bytes_ > max_bytes_ || entries_.size() > kMaxEntries)) {
    bytes_ -= entries_.front().bytes;
    entries_.pop_front();
  }
  return entries_.back().weights;
}

}  // namespace trainer::data
