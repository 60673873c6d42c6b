// The points of a sweep: every combination of the values of its axes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace trainer::results {

// The values that a key of the config takes in turn.
struct Axis {
  std::string key;
  std::vector<std::string> values;  // YAML
  std::string variable = {};        // environment variable with the point's value; "" for none
};

struct Point {
  std::string name;                                         // its folder: "gpus=2_batch_size=32"
  std::vector<std::pair<std::string, std::string>> values;  // keys and values, in the axes' order
  config::Environment environment;                          // variables of the axes
};

// "key=v1,v2"; commas within [], {} and quotes belong to a value. Throws ConfigError.
Axis parse_axis(const std::string& text);
// The axes of the variables NUM_GPUS, BATCH_SIZE, LEARNING_RATE and SEEDS, lists with blanks or
// commas between; empty ones and those whose key `given` has are left out. LEARNING_RATE stands for
// learning_rate_key().
std::vector<Axis> axes_of_environment(const config::Environment& environment,
                                      const std::vector<Axis>& given,
                                      const std::string& learning_rate_key);
// The key that sets the highest learning rate of a config.
std::string learning_rate_key(const config::Config& config);

// The most points of a sweep without --max-points.
inline constexpr std::int64_t kMaxPoints = 1000;

// Returns all combinations; the last axis varies fastest. A name that is too long for a file is cut
// and ends in a hash. Throws ConfigError if two points would have one name, or if there are more
// than `max_points`.
std::vector<Point> make_points(const std::vector<Axis>& axes, std::int64_t max_points = kMaxPoints);
// "batch_size" for train.batch_size; the whole key where another axis ends alike.
std::string short_name(const std::string& key, const std::vector<Axis>& axes);

}  // namespace trainer::results
