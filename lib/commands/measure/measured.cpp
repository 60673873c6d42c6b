#include "commands/measure/measured.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/json_number.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

// Returns the last line with the key, or an empty object when there is none.
nlohmann::ordered_json read_measured_line(const std::string& path, const std::string& key) {
  nlohmann::ordered_json measured = nlohmann::ordered_json::object();
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (!is_shallow_json(line)) continue;
    const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (json.is_object() && json.contains(key)) measured = json;
  }
  return measured;
}

}  // namespace

results::MeasuredKeys measured_keys(const std::vector<model::LayerRow>& layers,
                                    const config::Config& config) {
  std::int64_t parameters = 0, trainable = 0, flops = 0;
  for (const model::LayerRow& row : layers) {
    parameters += row.parameters;
    trainable += row.trainable_parameters;
    flops += row.flops;
  }
  return {parameters, trainable, flops, config.train.batch_size, config.parallel.replicas};
}

void check_measured(const std::string& path, const std::vector<model::LayerRow>& layers,
                    const config::Config& config) {
  const nlohmann::ordered_json keys = results::to_json(measured_keys(layers, config));
  const nlohmann::ordered_json measured = read_measured_line(path, keys.begin().key());
  for (const auto& [key, value] : keys.items()) {
    const auto found = measured.find(key);
    if (found == measured.end()) {
      throw DataError(path, "does not contain the ", key,
                      " of what was measured: measure this config with trainer benchmark --json");
    }
    if (*found == value) continue;
    throw DataError(path, "was measured with ", key, ' ', found->dump(), ", here it is ",
                    value.dump(), ": measure this config with trainer benchmark --json");
  }
}

}  // namespace trainer::commands
