// Connections between processes of one host, which can hand each other descriptors. Inside the
// folder.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cluster/transport/socket.h"

namespace trainer::cluster {

// `name` stands in no file system: it is known to the processes of one network namespace, and gone
// with the listener. All sockets are not blocking. No socket where the system does not allow it.
Socket listen_locally(const std::string& name);
// Returns an empty socket if no process of this host listens under this name.
Socket connect_locally(const std::string& name);

// Sends a short message, the first on its connection, with a descriptor beside it unless that is
// empty; whether it was sent.
bool send_with(const Socket& socket, std::span<const std::byte> message, const Socket& descriptor);
// Receives like recv(), from any kind of socket, and stores a descriptor that came along.
ssize_t receive_with(const Socket& socket, std::span<std::byte> message, Socket& descriptor);

}  // namespace trainer::cluster
