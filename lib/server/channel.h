// What both ends of a connection are set to, inside the folder.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace trainer::server {

// Each end sends a ping when it has heard nothing for a quarter of the timeout, and takes the other
// for gone when no answer comes within half of it.
std::vector<std::pair<std::string, int>> channel_arguments(std::chrono::milliseconds timeout);

// The name and value of what callers send along to prove that they know the job's secret; an empty
// value when there is none.
inline constexpr char kTokenName[] = "trainer-token";
std::string token_of(const std::string& secret);

// Before the first connection: keeps memory that is freed for the next message, and makes gRPC
// write nothing to standard error, unless the environment asks it to.
void prepare_process();

}  // namespace trainer::server
