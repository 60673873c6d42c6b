// The settings of both ends of a connection. Internal to the folder.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace trainer::server {

// Each end sends a ping when it has received nothing for a quarter of the timeout, and treats the
// other as gone when no answer arrives within half of it.
std::vector<std::pair<std::string, int>> channel_arguments(std::chrono::milliseconds timeout);

// The name and value of the metadata with which callers prove that they have the job's secret. The
// value is empty without a secret.
inline constexpr char kTokenName[] = "trainer-token";
std::string make_token(const std::string& secret);

// Must run before the first connection. Keeps freed memory for the next message, and stops gRPC
// from writing to standard error unless GRPC_VERBOSITY is set.
void prepare_process();

}  // namespace trainer::server
