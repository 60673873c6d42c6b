// The messages between the ranks and the coordinator, inside the folder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trainer::cluster {

inline constexpr std::uint64_t kProtocol = 0x5452'4e52'0000'0004;  // "TRNR", version 4

enum Message : std::uint8_t {
  // A rank to the coordinator.
  kHello = 1,  // protocol, job, rank, size, name, version, cluster, host, process id, the rank's
               // challenge, its proof of the secret
  kSet,        // key, value; ignored if the key is there
  kGet,        // request, key; answered by kValue once the key is there
  kAgree,      // request, key, value; answered by kAgreed once all ranks have sent theirs
  kStatus,     // request; answered by kProgress
  kHeartbeat,  // calls begun, 1 while it prepares, then kTrafficNumbers per rank
  kFailed,     // the rank at fault, message
  kLeave,      // this rank is done
  // The coordinator to a rank.
  kWelcome = 64,  // rank 0's proof, generation, the rank's address, then per rank: name, host,
                  // address, process id
  kReject,        // Refusal, message
  kValue,         // request, value
  kAgreed,        // request, message; "" when all were equal
  kProgress,      // request, then per rank: State, calls begun, and kTrafficNumbers per rank
  kBeat,          // a number that changes when any rank has made progress
  kLost,          // rank, message
  kEnd,           // rank 0 is done
  kChallenge      // the first message on every connection: a text to be used in the proof
};

// The numbers of one rank for another one, in this order: the members of PeerTraffic.
enum TrafficNumber : std::size_t {
  kSent,
  kReceived,
  kReceiveWaits,
  kSendWaits,
  kMoved,
  kTrafficNumbers  // their number
};

enum Refusal : std::uint64_t {
  kWrong,    // the settings differ: nothing but a change of them helps
  kMissing,  // some ranks did not come
  kLater     // another start of the job, which may be about to end, is still there
};

// Labels of the proofs, by the other's challenge, that a rank and rank 0 have the secret.
inline constexpr const char* kHelloProof = "trainer rank";
inline constexpr const char* kWelcomeProof = "trainer rank 0";

enum State : std::uint64_t { kPresent, kLeft, kGone };

}  // namespace trainer::cluster
