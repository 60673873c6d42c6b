// Which of the networks of its name a backbone is.
#pragma once

#include "config/config.h"
#include "config/weight_source.h"

namespace trainer::config {

// Sets model.backbone.variant, where the config leaves it out: to that of `source`, else to the
// variant whose names the weight file has, else to the first of the backbone. Clears a source that
// is a file beside weights with other names. Sets Model::weights_warning where it is not known
// how images were prepared for the weights. Throws ConfigError if the weights are of another
// network than the config gives, or if the names in their file fit several networks. A file that
// cannot be read counts as none: it is reported where its weights are imported. Reasons:
// lib/decisions/config.md#the-names-in-a-weight-file-decide-the-variant-of-a-backbone.
void resolve_variant(LoadedConfig& loaded, WeightSource& source);

}  // namespace trainer::config
