// A second backend, for tests: graphs are interpreted by the plain loops of support/reference.h,
// later and on another thread than the one that launches them. What works on it waits for results
// where it must.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace trainer::test {

// Device memory starts as not-a-number, and so does host memory that results will be written to,
// until they are.
std::unique_ptr<backend::Backend> open_reference_backend();

}  // namespace trainer::test
