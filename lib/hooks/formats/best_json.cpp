#include "hooks/formats/best_json.h"

#include <nlohmann/json.hpp>

namespace trainer::hooks {

nlohmann::ordered_json best_json(const Finish::Best& best) {
  nlohmann::ordered_json json{
      {"metric", best.metric}, {"value", best.value}, {"epoch", best.epoch}, {"step", best.step}};
  if (best.restored) json["restored"] = true;
  return json;
}

}  // namespace trainer::hooks
