#include "train/strategy/strategy.h"

#include "train/signals.h"

namespace trainer::train {

bool Strategy::stop_requested() const { return SignalWatch::received() != nullptr; }

}  // namespace trainer::train
