#include "cluster/own_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <set>

#include "cluster/identity.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {
namespace {

// A port that the kernel chooses can be had at an address of this host only.
bool is_of_this_host(const addrinfo& entry) {
  const Socket socket(::socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket && ::bind(socket.get(), entry.ai_addr, entry.ai_addrlen) == 0;
}

}  // namespace

std::string own_address(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(host.c_str(), "0", &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::set<std::string> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (!is_of_this_host(*entry) || ::getnameinfo(entry->ai_addr, entry->ai_addrlen, text,
                                                  sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
      continue;
    }
    found.insert(text);
  }
  if (found.empty()) return "";
  if (is_loopback(host)) return *found.begin();
  return found.size() == 1 && !is_loopback(*found.begin()) ? *found.begin() : "";
}

}  // namespace trainer::cluster
