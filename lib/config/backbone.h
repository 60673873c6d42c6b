// Values that follow from the choice of a backbone.
#pragma once

#include "config/config.h"

namespace trainer::config {

// Returns the preset of data.preprocess with which the weights of the backbone were trained, which
// is that of preprocess_input() in keras.applications.
PreprocessPreset default_preprocess(Backbone::Name backbone);

}  // namespace trainer::config
