// Reads fixtures of test/keras.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/source_files.h"

namespace trainer::test {

// Returns the list "cases" of test/keras/<file>, which is not empty.
inline nlohmann::json read_fixture_cases(const std::string& file) {
  std::ifstream stream(source_file("test/keras/" + file));
  REQUIRE(stream);
  nlohmann::json cases = nlohmann::json::parse(stream).at("cases");
  REQUIRE(cases.size() > 0);
  return cases;
}

}  // namespace trainer::test
