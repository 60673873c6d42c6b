#include "commands/measure/measured.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/formats/json.h"
#include "base/formats/json_number.h"

namespace trainer::commands {
namespace {

// The last line that says it; an empty object when none does.
nlohmann::json said_in(const std::string& path) {
  nlohmann::json said = nlohmann::json::object();
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (!is_shallow_json(line)) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("parameters")) said = json;
  }
  return said;
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
  const nlohmann::json said = said_in(path);
  for (const auto& [key, value] : measured_keys(layers, config)) {
    const auto found = said.find(key);
    if (found == said.end()) {
      throw DataError(path, concat("does not say the ", key,
                                   " of what was measured: measure this config with trainer "
                                   "benchmark --json"));
    }
    if (*found == value) continue;
    throw DataError(path, concat("was measured with ", key, ' ', found->dump(), ", here it is ",
                                 value, ": measure this config with trainer benchmark --json"));
  }
}

}  // namespace trainer::commands
