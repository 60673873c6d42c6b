// The certificates of the authorities that the distribution trusts.
#pragma once

#include "base/files/files.h"
#include "config/config.h"

namespace trainer::commands {

// Returns the file of certificates: $SSL_CERT_FILE, else the first that exists below `root` of the
// places where distributions keep it; empty if there is none.
Path find_certificates(const config::Environment& environment, const Path& root = "/");

}  // namespace trainer::commands
