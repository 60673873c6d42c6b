#include "commands/measure/measured.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"

namespace trainer::commands {
namespace {

// Returns the last line with measured keys, or an empty object when there is none.
nlohmann::json read_measured_line(const std::string& path) {
  nlohmann::json measured = nlohmann::json::object();
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (!is_shallow_json(line)) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("parameters")) measured = json;
  }
  return measured;
}

}  // namespace

MeasuredKeys measured_keys(const std::vector<model::LayerRow>& layers,
                           const config::Config& config) {
  std::int64_t parameters = 0, trainable = 0, flops = 0;
  for (const model::LayerRow& row : layers) {
    parameters += row.parameters;
    trainable += row.trainable_parameters;
    flops += row.flops;
  }
  return {{"parameters", parameters},
          {"trainable_parameters", trainable},
          {"flops", flops},
          {"batch_size", static_cast<std::int64_t>(config.train.batch_size)},
          {"replicas", config.parallel.replicas}};
}

void print_model_json(const MeasuredKeys& keys, std::ostream& out) {
  nlohmann::ordered_json event{{"event", "model"}};
  for (const auto& [key, value] : keys) event[key] = value;
  write_event(out, event);
}

void check_measured(const std::string& path, const std::vector<model::LayerRow>& layers,
                    const config::Config& config) {
  const nlohmann::json measured = read_measured_line(path);
  for (const auto& [key, value] : measured_keys(layers, config)) {
    const auto found = measured.find(key);
    if (found == measured.end()) {
      throw DataError(path, concat("does not contain the ", key,
                                   " of what was measured: measure this config with trainer "
                                   "benchmark --json"));
    }
    if (*found == value) continue;
    throw DataError(path, concat("was measured with ", key, ' ', found->dump(), ", here it is ",
                                 value, ": measure this config with trainer benchmark --json"));
  }
}

}  // namespace trainer::commands
