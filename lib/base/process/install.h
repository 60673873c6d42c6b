// The files that are installed with the program.
#pragma once

#include "base/files/files.h"

namespace trainer {

// Returns the config or other file of this name that was installed with the program, such as
// /usr/share/trainer/configs/mnist.yaml for configs/mnist.yaml and mnist.yaml. `program` is the
// path of the binary: bin/trainer of a prefix, or a file in the package of a wheel. Returns an
// empty path if there is none.
Path find_installed_file(const Path& program, const Path& name);

}  // namespace trainer
