#include "train/benchmark.h"

#include <emmintrin.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "base/error.h"
#include "optim/optim.h"
#include "train/open.h"

namespace trainer::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWindows = 10;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Calls use(batch) for each batch and measures samples a second in windows.
Throughput measure(const data::Dataset& dataset, const config::Config& config, double seconds,
                   const std::function<void(const data::Batch&)>& use) {
  data::LoaderOptions options;
  options.batch_size = config.train.batch_size * config.parallel.replicas;
  options.seed = config.seed;
  options.shuffle = config.data.shuffle;
  options.prefetch = config.data.prefetch;
  options.threads = config.data.threads;
  const auto loader = data::make_loader(dataset, options);
  const auto step = [&] {
    const data::Batch* batch = loader->next();
    const std::int64_t count = batch->range.count;
    use(*batch);
    loader->release();
    return count;
  };
  const Clock::time_point begin = Clock::now();
  do step();
  while (seconds_between(begin, Clock::now()) < seconds / kWindows);

  Throughput result;
  std::vector<double> rates;
  const double waited = loader->seconds_waited();
  const Clock::time_point measured = Clock::now();
  for (int window = 0; window < kWindows; ++window) {
    const Clock::time_point start = Clock::now();
    std::int64_t samples = 0;
    double elapsed = 0;
    do {
      samples += step();
      ++result.steps;
      elapsed = seconds_between(start, Clock::now());
    } while (elapsed < seconds / kWindows);
    rates.push_back(static_cast<double>(samples) / elapsed);
  }
  result.wait_share = (loader->seconds_waited() - waited) / seconds_between(measured, Clock::now());
  std::sort(rates.begin(), rates.end());
  result.low = rates.front();
  result.high = rates.back();
  result.images_per_second = (rates[(kWindows - 1) / 2] + rates[kWindows / 2]) / 2;
  return result;
}

// to[i] = from[i] * scale[i] + shift[i]. A batch is larger than the caches: the numbers go past
// them where the row is aligned, which spares reading the memory that they overwrite.
void normalize_row(const std::uint8_t* from, const float* scale, const float* shift,
                   std::size_t count, float* to) {
  std::size_t i = 0;
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128) == 0) {
    const __m128i zero = _mm_setzero_si128();
    for (; i + 8 <= count; i += 8) {
      const __m128i words =
          _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i)), zero);
      const auto store = [&](std::size_t at, __m128i bytes) {
        const __m128 product = _mm_mul_ps(_mm_cvtepi32_ps(bytes), _mm_loadu_ps(scale + at));
        _mm_stream_ps(to + at, _mm_add_ps(product, _mm_loadu_ps(shift + at)));
      };
      store(i, _mm_unpacklo_epi16(words, zero));
      store(i + 4, _mm_unpackhi_epi16(words, zero));
    }
  }
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale[i] + shift[i];
}

// Of the last dense layer of a list; 0 when it has none.
std::int64_t units_of(const std::vector<config::Layer>& layers) {
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (const auto* dense = std::get_if<config::DenseLayer>(&layer->kind)) return dense->units;
  }
  return 0;
}

// The classes that the layers are made for; 0 when they follow the data.
std::int64_t classes_of(const config::Model& model) {
  const std::int64_t units = units_of(model.backbone ? model.head : model.layers);
  return units == 1 ? 2 : units;
}

// The samples of the config's data; none when it is not there.
std::optional<model::SampleSpec> sample_of_data(const config::Config& config) {
  try {
    return sample_spec(data::open_datasets(config.data, config.seed, "train"));
  } catch (const DataError&) {
    return std::nullopt;
  }
}

}  // namespace

void use_synthetic_data(config::Config& config) {
  if (config.data.format == config::DataFormat::kSynthetic) return;
  std::int64_t classes = classes_of(config.model);
  std::optional<model::SampleSpec> sample = expected_sample(config);
  if (!sample || (classes == 0 && sample->classes < 1)) {
    if (auto found = sample_of_data(config)) sample = std::move(found);
  }
  if (sample && classes == 0) classes = sample->classes;
  config::Synthetic& synthetic = config.data.synthetic;
  if (sample) synthetic.shape = sample->image.dims();
  if (classes > 0) synthetic.classes = classes;
  config.data.format = config::DataFormat::kSynthetic;
  config.data.classes.clear();
  config.data.num_classes.reset();
  config.data.limit.reset();
}

Throughput measure_training(Replicas& engine, const data::Dataset& dataset,
                            const config::Config& config, double seconds) {
  const StepPlan plan = plan_steps(config, dataset.size());
  const optim::LearningRate rate = learning_rate(config, plan);
  backend::Scalars scalars;
  scalars.update = 0;
  return measure(dataset, config, seconds, [&](const data::Batch& batch) {
    scalars.learning_rate = static_cast<float>(rate(static_cast<std::int64_t>(scalars.update)));
    ++scalars.update;
    scalars.loss_scale = 1.0 / static_cast<double>(batch.range.count);
    engine.step(batch.range.count, batch.images, batch.labels, scalars);
  });
}

Throughput measure_input(const data::Dataset& dataset, const config::Config& config,
                         double seconds) {
  // What peers count too: the numbers that the first layer reads.
  const config::Normalize normalize = config::normalize_of(config.data);
  const Shape shape = dataset.image_shape();
  const auto channels = static_cast<std::size_t>(shape[2]);
  const std::size_t row = static_cast<std::size_t>(shape[1]) * channels;
  std::vector<float> scale(row), shift(row), numbers;
  for (std::size_t i = 0; i < row; ++i) {
    const auto of = [c = i % channels](const std::vector<double>& list, double otherwise) {
      return list.empty() ? otherwise : list[std::min(c, list.size() - 1)];
    };
    scale[i] = static_cast<float>(normalize.scale / of(normalize.std, 1));
    shift[i] = static_cast<float>(-of(normalize.mean, 0) / of(normalize.std, 1));
  }
  return measure(dataset, config, seconds, [&](const data::Batch& batch) {
    if (dataset.image_type() != DType::kUInt8) return;
    const auto rows = static_cast<std::size_t>(batch.range.count * shape[0]);
    numbers.resize(rows * row);
    const auto* from = static_cast<const std::uint8_t*>(batch.images);
    float* to = numbers.data();
    for (std::size_t r = 0; r < rows; ++r, from += row, to += row) {
      normalize_row(from, scale.data(), shift.data(), row, to);
    }
    _mm_sfence();
  });
}

}  // namespace trainer::train
