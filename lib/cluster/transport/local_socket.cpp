#include "cluster/transport/local_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

namespace trainer::cluster {
namespace {

constexpr int kLocalSocketType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

// An abstract name: a zero, then the bytes.
struct LocalAddress {
  explicit LocalAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    fits = name.size() + 1 <= sizeof address.sun_path;
    if (!fits) return;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length = 0;
  bool fits = false;
};

// Room for one descriptor.
struct Control {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int))] = {};
};

}  // namespace

Socket listen_locally(const std::string& name) {
  const LocalAddress address(name);
  if (!address.fits) return {};
  Socket socket(::socket(AF_UNIX, kLocalSocketType, 0));
  if (!socket || ::bind(socket.get(), address.get(), address.length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return {};
  }
  return socket;
}

Socket connect_locally(const std::string& name) {
  const LocalAddress address(name);
  if (!address.fits) return {};
  Socket socket(::socket(AF_UNIX, kLocalSocketType, 0));
  if (!socket || ::connect(socket.get(), address.get(), address.length) != 0) return {};
  return socket;
}

bool send_with(const Socket& socket, std::span<const std::byte> message, const Socket& descriptor) {
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  Control control;
  if (descriptor) {
    header.msg_control = control.bytes;
    header.msg_controllen = sizeof control.bytes;
    cmsghdr* const first = CMSG_FIRSTHDR(&header);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = descriptor.get();
    std::memcpy(CMSG_DATA(first), &number, sizeof number);
  }
  return ::sendmsg(socket.get(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
}

ssize_t receive_with(const Socket& socket, std::span<std::byte> message, Socket& descriptor) {
  iovec part{message.data(), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  Control control;
  header.msg_control = control.bytes;
  header.msg_controllen = CMSG_LEN(sizeof(int));  // the kernel closes what is more than one
  const ssize_t got = ::recvmsg(socket.get(), &header, MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(item), sizeof number);
    descriptor = Socket(number);
  }
  return got;
}

}  // namespace trainer::cluster
