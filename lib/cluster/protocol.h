// What the ranks and the coordinator say to each other, inside the folder.
#pragma once

#include <cstdint>

namespace trainer::cluster {

inline constexpr std::uint64_t kProtocol = 0x5452'4e52'0000'0001;  // "TRNR", version 1

enum Message : std::uint8_t {
  // A rank to the coordinator.
  kHello = 1,  // protocol, job, rank, name, version, cluster, host, process id
  kSet,        // key, value
  kGet,        // request, key; answered by kValue once the key is there
  kAgree,      // request, key, value; answered by kAgreed once all ranks have sent theirs
  kStatus,     // request; answered by kProgress
  kCalls,      // calls begun; the heartbeat
  kFailed,     // the rank at fault, message
  kLeave,      // this rank is done
  // The coordinator to a rank.
  kWelcome = 64,  // generation, the rank's address, then per rank: name, host, address, process id
  kReject,        // Refusal, message
  kValue,         // request, value
  kAgreed,        // request, message; "" when all were equal
  kProgress,      // request, then per rank: State, calls begun
  kBeat,          // the coordinator's heartbeat
  kLost,          // rank, message
  kEnd            // rank 0 is done
};

enum Refusal : std::uint64_t {
  kWrong,    // the settings differ: nothing but a change of them helps
  kMissing,  // not all ranks came
  kLater     // another start of the job, which may be about to end, is still there
};

enum State : std::uint64_t { kPresent, kLeft, kGone };

}  // namespace trainer::cluster
