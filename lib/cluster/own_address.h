// Finds the address at which this process listens.
#pragma once

#include <string>

namespace trainer::cluster {

// The numeric address of this host that `host`, a name or an address, stands for. Nothing when a
// socket must listen on all interfaces to be reached under that name: it stands for several
// addresses of this host, for loopback under another name (as Debian has it of the host's own), or
// for none of this host's (behind a service of Kubernetes, or a translation of addresses).
std::string own_address(const std::string& host);

}  // namespace trainer::cluster
