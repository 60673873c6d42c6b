// Connects ranks to each other: each end proves its rank to the other. Inside the folder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/rendezvous.h"
#include "cluster/transport/interrupt.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {

// A connection to another rank. Nothing has been sent on it yet.
struct PeerConnection {
  int rank = 0;
  Socket socket;
  Socket memory;        // memory of SharedRing::make_memory(); empty when messages use the socket
  bool called = false;  // this rank has called; its end of the memory is 1, else 0
};

// Connects the ranks that name each other in `peers`, with all of them at once. Collective; `name`
// is new and the same on all ranks. A rank calls those of lower number and is called by those of
// higher number. Ranks of one host that name each other in `neighbours`, too, use a local socket
// and share memory where the system allows it.
//
// A connection that does not prove to be one of `peers` is closed and delays nobody. Without a
// secret the proof rests on the number that rank 0 has drawn for this start. Throws PeerError, and
// std::runtime_error at the deadline and when interrupted. Raises `interrupt` when it fails.
std::vector<PeerConnection> connect_peers(Rendezvous& rendezvous, const std::string& name,
                                          std::span<const int> peers,
                                          std::span<const int> neighbours,
                                          Clock::time_point deadline, Interrupt& interrupt);

}  // namespace trainer::cluster
