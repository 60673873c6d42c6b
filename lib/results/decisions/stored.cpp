#include "results/decisions/stored.h"

namespace trainer::results {

void fields(FieldVisitor& v, StoredOrigin& origin) {
  v("step", origin.step, kSteps, "The step of the checkpoint.");
  v("tensors_sha256", origin.tensors_sha256, "Hash of the parameters and statistics.");
  v.newer("flip", origin.flip, "Whether mirror images were used too (--flip).");
}

}  // namespace trainer::results
