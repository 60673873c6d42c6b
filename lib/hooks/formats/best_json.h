// Writes the best checkpoint of a run as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hooks/hooks.h"

namespace trainer::hooks {

// Returns {"metric":"validation/accuracy","value":0.98,"epoch":3.0,"step":2814}.
nlohmann::ordered_json best_json(const Finish::Best& best);

}  // namespace trainer::hooks
