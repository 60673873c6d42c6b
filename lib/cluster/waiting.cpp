#include "cluster/waiting.h"

namespace trainer::cluster {
namespace {

thread_local bool sleeps = false;

}  // namespace

void sleep_when_waiting() { sleeps = true; }
bool sleeps_when_waiting() { return sleeps; }

}  // namespace trainer::cluster
