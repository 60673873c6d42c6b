// Prints durations as clocks do.
#pragma once

#include <string>

namespace trainer {

// Formats seconds, rounded up: "1:15", "1:01:40"; 0 for a negative number.
std::string clock_time(double seconds);

}  // namespace trainer
