// Which of the networks of its name a backbone is.
#pragma once

#include "config/config.h"

namespace trainer::config {

// Sets model.backbone.variant, where the config leaves it out: to the variant whose names the
// weight file has, else to the first of the backbone. Throws ConfigError if the file is one of
// another variant than the config gives, or if its names fit several networks. A file that cannot
// be read counts as none: it is reported where its weights are imported. Reasons:
// lib/decisions/config.md#the-names-in-a-weight-file-decide-the-variant-of-a-backbone.
void resolve_variant(LoadedConfig& loaded);

}  // namespace trainer::config
