#include "train/strategy/strategy.h"

#include "base/error.h"
#include "train/session/session.h"
#include "train/signals.h"

namespace trainer::train {

bool Strategy::stop_requested() const { return SignalWatch::received() != nullptr; }

std::vector<std::string> Strategy::rank_names() const {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < session().job.engine.count(); ++i) {
    names.push_back(concat("replica ", i));
  }
  return names;
}

}  // namespace trainer::train
