#include "version.h"

namespace trainer::app {

// The build sets TRAINER_VERSION anew at each commit, for this file alone.
const char* version() { return "trainer " TRAINER_VERSION; }

}  // namespace trainer::app
