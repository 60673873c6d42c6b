#include "commands/predict/heatmap_writer.h"

#include "results/evaluation/find_class.h"

namespace trainer::commands {

static std::optional<std::int64_t> find_label(const HeatmapOptions& options,
                                              const inference::OpenedModel& opened) {
  if (options.class_name.empty()) return std::nullopt;
  return results::find_class(opened.classes, options.class_name, "--heatmap-class");
}

HeatmapWriter::HeatmapWriter(const HeatmapOptions& options, const inference::OpenedModel& opened,
                             const std::vector<inference::PredictionInput>& inputs,
                             std::optional<std::int64_t> limit)
    : label_(find_label(options, opened)),
      maker_(opened, inputs, options.method, options.layer),
      folder_(options.folder, inference::name_heatmaps(inputs, limit), options.overwrite) {}

std::string HeatmapWriter::write(std::size_t input, const inference::PredictionInput& data,
                                 const results::Prediction& prediction) {
  const std::int64_t index = prediction.index;
  folder_.write(input, index,
                maker_.draw(data.dataset(), index, label_.value_or(prediction.predicted)));
  return folder_.path(input, index);
}

}  // namespace trainer::commands
