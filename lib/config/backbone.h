// What follows from the choice of a backbone.
#pragma once

#include "config/config.h"

namespace trainer::config {

// The preset of data.preprocess that its weights were trained with: what preprocess_input of
// keras.applications does.
PreprocessPreset default_preprocess(Backbone::Name backbone);

}  // namespace trainer::config
