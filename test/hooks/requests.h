// What the servers of these tests have logged, and what their tests wait for.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/files/files.h"

namespace trainer::hooks::test {

// Returns the requests of a log with a JSON object a line. The server may be writing the last line,
// which then has no end yet.
inline std::vector<nlohmann::json> read_requests(const Path& log) {
  std::vector<nlohmann::json> found;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    found.push_back(nlohmann::json::parse(line));
  }
  return found;
}

// Waits until another thread or process has brought about what `happened` returns.
inline void wait_until(const std::function<bool()>& happened) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!happened()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace trainer::hooks::test
