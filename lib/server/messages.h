// Converts between messages and the types of the program. Internal to the folder.
#pragma once

#include <span>
#include <string>

#include "parameter_server.pb.h"
#include "server/client.h"

namespace trainer::server {

proto::Layout to_message(const Start& start);
// Throws std::invalid_argument for a message with impossible values.
Start from_message(const proto::Layout& layout);

proto::Part to_message(backend::FlatBuffer buffer);
backend::FlatBuffer from_message(const proto::Part& part);

proto::Outcome to_message(const Outcome& outcome);
Outcome from_message(const proto::Outcome& outcome);

// Convert floats to bytes and back. The view points into `bytes`. Throws std::invalid_argument when
// `bytes` is not a whole number of floats.
std::string to_bytes(std::span<const float> values);
std::span<const float> from_bytes(const std::string& bytes);

// "seed: 8" of `mine` and "seed: 7" of `theirs`: the first lines in which they differ.
struct Difference {
  std::string mine, theirs;
};
Difference first_difference(const std::string& mine, const std::string& theirs);

}  // namespace trainer::server
