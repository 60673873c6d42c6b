// The certificates of the authorities that the distribution trusts.
#pragma once

#include <map>
#include <string>

#include "base/files/files.h"

namespace trainer::http {

// Returns the file of certificates: $SSL_CERT_FILE, else the first that exists below `root` of the
// places where distributions keep it; empty if there is none.
Path find_certificates(const std::map<std::string, std::string>& environment,
                       const Path& root = "/");

}  // namespace trainer::http
