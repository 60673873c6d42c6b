// Makes the model of a config without training it.
#pragma once

#include <string>

#include "base/notice.h"
#include "config/config.h"
#include "inference/open_model/open_model.h"

namespace trainer::inference {

// The model of a config file with the values from which a run would start: its initialisers', and
// the tensors of model.weights or model.backbone.weights. `weights` takes the place of these keys:
// "imagenet" that of model.backbone.weights, a file or run that of model.weights; "" takes neither.
// Samples and classes are those of the config's data. If the data cannot be opened, they are those
// of the config, and classes without names are numbers. Reports the layers that have no weights but
// their initial ones. Throws ConfigError, and DataError when weights are missing or do not fit.
OpenedModel open_untrained(const std::string& path, const std::string& weights,
                           const OpenOptions& options);

}  // namespace trainer::inference
