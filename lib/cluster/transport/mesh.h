// A Gloo context whose waits can be ended from another thread. Inside the folder.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <memory>
#include <string>

#include "cluster/rendezvous.h"

namespace trainer::cluster {

// Connections from every rank to every other. Gloo wakes a waiting thread only when the peer's own
// connection breaks, and not always then; here all buffers are known, so that abort() reaches every
// wait, and every wait ends at the deadline of the call that it belongs to.
class Mesh : public gloo::Context {
 public:
  // Collective; `name` is the same on all ranks and new. When a stranger has taken the place of a
  // rank at one of Gloo's ports, all ranks try again with new ports. Throws PeerError or
  // gloo::Exception.
  static std::shared_ptr<Mesh> connect(Rendezvous& rendezvous,
                                       const std::shared_ptr<gloo::transport::Device>& device,
                                       const std::string& name);
  ~Mesh() override;

  // All waits from here on end by now + timeout.
  void begin_call();
  bool expired() const;
  // Ends all waits and closes the connections, from any thread: the other ranks notice at once.
  void abort() noexcept;

 private:
  class Transport;
  static std::shared_ptr<Mesh> listen(Rendezvous& rendezvous,
                                      std::shared_ptr<gloo::transport::Device> device,
                                      const std::string& name, std::chrono::milliseconds limit);
  void connect_pairs(Rendezvous& rendezvous, const std::string& name);
  void greet_all(const Rendezvous& rendezvous, const std::string& name,
                 std::chrono::milliseconds limit);
  Mesh(int rank_of_this, int ranks, std::chrono::milliseconds timeout);
  std::shared_ptr<Transport> transport_;
  Rendezvous::Handle watch_;
};

}  // namespace trainer::cluster
