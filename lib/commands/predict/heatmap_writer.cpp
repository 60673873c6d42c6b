#include "commands/predict/heatmap_writer.h"

#include "commands/open_model/find_class.h"

namespace trainer::commands {

static std::optional<std::int64_t> find_label(const HeatmapOptions& options,
                                              const OpenedModel& opened) {
  if (options.class_name.empty()) return std::nullopt;
  return find_class(opened.classes, options.class_name, "--heatmap-class");
}

HeatmapWriter::HeatmapWriter(const HeatmapOptions& options, const OpenedModel& opened,
                             const std::vector<PredictionInput>& inputs,
                             std::optional<std::int64_t> limit)
    : label_(find_label(options, opened)),
      maker_(opened, inputs, options.method, options.layer),
      folder_(options.folder, name_heatmaps(inputs, limit), options.overwrite) {}

std::string HeatmapWriter::write(std::size_t input, const PredictionInput& data,
                                 const Prediction& prediction) {
  const std::int64_t index = prediction.index;
  folder_.write(input, index,
                maker_.draw(data.dataset(), index, label_.value_or(prediction.predicted)));
  return folder_.path(input, index);
}

}  // namespace trainer::commands
