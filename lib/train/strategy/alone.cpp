// One process, with all replicas in it.
#include "train/strategy/synchronous.h"

namespace trainer::train {
namespace {

class Alone final : public SynchronousStrategy {};

}  // namespace

std::unique_ptr<Strategy> make_alone() { return std::make_unique<Alone>(); }

}  // namespace trainer::train
