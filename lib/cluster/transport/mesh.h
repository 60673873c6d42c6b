// A Gloo context on connections of our own. Inside the folder.
// Reasons: lib/decisions/cluster.md#gloo-runs-on-our-connections.
#pragma once

#include <gloo/context.h>

#include <memory>
#include <string>

#include "cluster/rendezvous.h"

namespace trainer::cluster {

// Connections from every rank to every other, over which Gloo's algorithms send and receive. The
// thread that calls moves the bytes. Each end has authenticated the other; every wait ends at the
// deadline of the call that it belongs to, and by abort().
class Mesh : public gloo::Context {
 public:
  // Collective; `name` is the same on all ranks and new. Throws PeerError or std::runtime_error.
  static std::shared_ptr<Mesh> connect(Rendezvous& rendezvous, const std::string& name);
  ~Mesh() override;

  // All waits from here on end by now + timeout.
  void begin_call();
  bool expired() const;
  // Ends all waits and closes the connections, from any thread: the other ranks notice at once.
  void abort() noexcept;

 private:
  class Transport;
  Mesh(const Rendezvous& rendezvous, std::shared_ptr<Transport> transport);
  std::shared_ptr<Transport> transport_;
  Rendezvous::Handle watch_;
};

}  // namespace trainer::cluster
