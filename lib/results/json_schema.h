#pragma once

#include <nlohmann/json_fwd.hpp>

#include "results/describe.h"

namespace trainer::results {

// Returns the JSON Schema (draft 2020-12) of values of this form, whose objects have no other keys.
nlohmann::ordered_json to_json_schema(const Form& form);

}  // namespace trainer::results
