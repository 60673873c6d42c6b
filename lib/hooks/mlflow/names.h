// Names and values as MLflow accepts them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainer::hooks::mlflow {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The limits of an MLflow server: of one log-batch request, and of names and values in bytes. The
// last is that of older servers.
inline constexpr std::size_t kMaxMetrics = 1000, kMaxParams = 100, kMaxTags = 100;
inline constexpr std::size_t kMaxNameBytes = 250, kMaxParamBytes = 6000, kMaxTagBytes = 5000;

// Returns the name of a parameter for a key of the config: "model.layers.2.conv.filters" for
// "model.layers[2].conv.filters". Characters that MLflow does not accept become '_'.
std::string to_param_name(std::string_view key);

// Returns the parameters for the keys and values of a config, without empty values. Names are
// unique: a name that is taken gets "_2" and so on.
Pairs to_params(const Pairs& settings);

// Returns the longest start of a UTF-8 text that has at most `max_bytes` and whole characters.
std::string cut_text(std::string text, std::size_t max_bytes);

}  // namespace trainer::hooks::mlflow
