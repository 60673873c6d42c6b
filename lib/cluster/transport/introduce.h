// How ranks connect to each other: each end proves to the other who it is. Inside the folder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/rendezvous.h"
#include "cluster/transport/interrupt.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {

// A connection to another rank. Nothing has been sent on it yet.
struct Acquaintance {
  int rank = 0;
  Socket socket;
  Socket memory;        // of SharedRing::make_memory(); none when messages go through the socket
  bool called = false;  // this rank has called; its end of the memory is 1, else 0
};

// Collective, between ranks that name each other in `peers`; `name` is the same on all and new. A
// rank calls those of lower number and is called by those of higher. Ranks of one host connect by a
// local socket and share memory where `share_memory` and the system allow it.
//
// Whoever connects and does not prove to be one of `peers` is closed and holds nobody up; without a
// secret the proof is the number that rank 0 has drawn for this start. Throws PeerError, and
// std::runtime_error at the deadline and when interrupted.
std::vector<Acquaintance> introduce(Rendezvous& rendezvous, const std::string& name,
                                    std::span<const int> peers, bool share_memory,
                                    Clock::time_point deadline, const Interrupt& interrupt);

}  // namespace trainer::cluster
