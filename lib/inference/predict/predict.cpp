#include "inference/predict/predict.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/error.h"
#include "base/numbers/seconds.h"
#include "engine/evaluate.h"
#include "engine/flip_evaluation.h"
#include "engine/metrics/binary_scores.h"
#include "model/build_model.h"
#include "results/prediction_speed.h"

namespace trainer::inference {
namespace {

using Clock = std::chrono::steady_clock;

void check_shape(const OpenedModel& opened, const PredictionInput& input) {
  const Shape shape = input.dataset().spec().image_shape;
  if (!opened.image_shape || shape == *opened.image_shape) return;
  throw DataError(input.name, "holds images of shape ", to_string(shape), ", but the model of ",
                  opened.path, " takes ", to_string(*opened.image_shape),
                  ". Arrays are [images, height, width, channels] or [images, height, width]");
}

}  // namespace

config::Data data_of_image_files(const OpenedModel& opened, const std::string& first) {
  config::Data data = opened.config.data;
  const Shape image = sample_spec(opened).image;
  const bool reads_bands = config::is_image_format(data.format);
  if (image[2] != 1 && image[2] != 3 && !reads_bands) {
    throw DataError(first, "is an image file, but the model of ", opened.path,
                    " was trained on arrays of ", image[2],
                    " channels; give an NPY file of images of shape ", to_string(image));
  }
  if (!config::is_image_format(data.format)) {
    opened.warn(concat(first, ": the model was trained on arrays; image files are stretched to ",
                       image[0], " x ", image[1], image[2] == 1 ? " and made grey" : ""));
  }
  data.resize = {image[0], image[1]};
  data.channels = image[2];
  return data;
}

PredictionInput make_prediction_input(const OpenedModel& opened, OpenedSplit split) {
  const config::Data& config = opened.config.data;
  const data::DamagedFiles* const damaged = split.files();
  const data::Damage damage = damaged != nullptr ? damaged->damage() : data::Damage{};
  for (const std::string& reason : damage.reasons) opened.warn("left out: " + reason);
  const bool skips = config.on_error == config::OnError::kSkip;
  PredictionInput input;
  input.name = to_string(split.split);
  input.images.dataset = std::move(split.data.dataset(split.split));
  input.images.labelled = true;
  input.one_per_file = config::is_image_format(config.format);
  input.unreadable = skips ? 0 : damage.skipped;
  return input;
}

std::vector<PredictionInput> open_prediction_inputs(const OpenedModel& opened,
                                                    const std::vector<std::string>& files,
                                                    std::optional<Split> split, bool skip) {
  std::vector<PredictionInput> inputs;
  if (files.empty()) {
    inputs.push_back(make_prediction_input(opened, open_split_or_default(opened, split)));
  }
  std::vector<std::string> images;  // image files that follow one another
  const auto flush = [&] {
    if (images.empty()) return;
    const std::string first = images.front();
    inputs.push_back(
        {first, data::open_image_files(data_of_image_files(opened, first), images, skip), true, 0});
    images.clear();
  };
  for (const std::string& file : files) {
    if (data::is_image_list(file)) {
      std::vector<std::string> more = data::list_image_files(file, opened.config.data.csv);
      std::move(more.begin(), more.end(), std::back_inserter(images));
    } else if (data::leads_to_image_files(file)) {
      std::string note;
      std::vector<std::string> more = data::image_files(file, &note);
      if (!note.empty()) opened.warn(note);
      std::move(more.begin(), more.end(), std::back_inserter(images));
    } else {
      flush();
      inputs.push_back({file, data::open_images(file), false, 0});
    }
  }
  flush();
  for (const PredictionInput& input : inputs) {
    check_shape(opened, input);
    const DType type = input.dataset().spec().image_type;
    if (type != inputs[0].dataset().spec().image_type) {
      throw DataError(input.name, "holds ", to_string(type), " images, but ", inputs[0].name,
                      " holds ", to_string(inputs[0].dataset().spec().image_type),
                      "; predict them one after the other");
    }
    if (opened.image_type && type != *opened.image_type) {
      opened.warn(concat(input.name, ": holds ", to_string(type),
                         " images, the model was trained on ", to_string(*opened.image_type),
                         "; the numbers are taken as they are, so they must be in the same range"));
    }
  }
  return inputs;
}

model::SampleSpec sample_spec(const OpenedModel& opened,
                              const std::vector<PredictionInput>& inputs) {
  const data::Dataset& first = inputs[0].dataset();
  return {
      first.spec().image_shape, first.spec().image_type,
      opened.label_is_index.value_or(!inputs[0].images.labelled || first.spec().label_is_index()),
      std::ssize(opened.classes)};
}

std::unique_ptr<engine::Engine> make_engine(const OpenedModel& opened,
                                            const std::vector<PredictionInput>& inputs) {
  const config::Config& config = opened.config;
  const graph::Graph model = model::build_model(config, sample_spec(opened, inputs));
  auto engine = std::make_unique<engine::Engine>(
      model, config, engine::open_backends(config, opened.platform), engine::Use::kPredict);
  engine->load(opened.file, opened.path);
  return engine;
}

void for_each_output(engine::Engine& engine, const PredictionInput& input,
                     const results::PredictOptions& options,
                     const std::function<void(const results::Output&)>& each,
                     const std::function<bool()>& enough) {
  engine::FlipEvaluation evaluation(engine, input.dataset().spec(), options.loss, options.flip);
  const OutputSource source{engine.evaluation_batch(), engine.replica().outputs(),
                            [&](const engine::HostBatch& batch) {
                              evaluation.run(batch);
                              return evaluation.logits();
                            }};
  for_each_output(source, input, options, each, enough);
}

void for_each_output(const OutputSource& source, const PredictionInput& input,
                     const results::PredictOptions& options,
                     const std::function<void(const results::Output&)>& each,
                     const std::function<bool()>& enough) {
  const std::int64_t size = input.dataset().size();
  const std::int64_t count = std::min(size, options.limit.value_or(size));
  data::LoaderOptions loading;
  loading.augment = false;
  loading.batch_size = source.batch;
  loading.end_step = data::batches_per_epoch(count, loading.batch_size);
  std::atomic<double> read_seconds = 0;
  loading.when_read = [&](const data::ReadBatch& batch) {
    read_seconds += seconds_between(batch.start, batch.end);
  };
  const Clock::time_point start = Clock::now();
  double predict_seconds = 0;
  const auto loader = data::make_loader(input.dataset(), loading);
  const std::size_t outputs = source.outputs, features = options.features;
  std::int64_t done = 0;
  while (const data::Batch* batch = loader->next()) {
    const Clock::time_point begin = Clock::now();
    const std::span<const float> logits =
        source.compute({batch->range.count, batch->images, false, nullptr});
    predict_seconds += seconds_since(begin);
    const std::vector<std::int32_t> labels = engine::label_indices(input.dataset(), *batch);
    for (std::size_t i = 0; i < labels.size() && done < count; ++i, ++done) {
      results::Output output;
      output.index = done;
      if (input.images.damage) output.error = input.images.damage(done);
      if (output.error.empty()) {
        output.logits = logits.subspan(i * outputs, outputs - features);
        output.features = logits.subspan((i + 1) * outputs - features, features);
        if (input.images.labelled) output.label = labels[i];
      }
      each(output);
    }
    loader->release();
    if (enough && enough()) break;
  }
  if (options.rates == nullptr) return;
  options.rates->images += done;
  options.rates->seconds += seconds_since(start);
  options.rates->read_seconds += read_seconds;
  options.rates->predict_seconds += predict_seconds;
  options.rates->wait_seconds += loader->seconds_waited();
}

void predict(engine::Engine& engine, const PredictionInput& input,
             const results::PredictOptions& options,
             const std::function<void(const results::Prediction&)>& each,
             const std::function<bool()>& enough) {
  const auto each_output = [&](const results::Output& output) {
    each(output.error.empty() ? results::make_prediction(output, options)
                              : results::Prediction{output});
  };
  for_each_output(engine, input, options, each_output, enough);
}

}  // namespace trainer::inference
