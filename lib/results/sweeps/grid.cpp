#include "results/sweeps/grid.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"

namespace trainer::results {
namespace {

[[noreturn]] void wrong_axis(const std::string& text) {
  throw ConfigError({}, "--over ", text,
                    ": expected key=value,value,..., e.g. --over train.batch_size=32,64");
}

// The parts between separators that stand outside brackets and quotes.
std::vector<std::string> split_values(const std::string& text, const std::string& separators) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;           // the one that is open
  bool is_escaped = false;  // by a backslash in double quotes
  for (const char letter : text) {
    if (quote != 0) {
      if (letter == quote && !is_escaped) quote = 0;
      is_escaped = quote == '"' && letter == '\\' && !is_escaped;
      values.back() += letter;
      continue;
    }
    // Within a word, as in don't, a quote is a letter.
    const bool begins_word =
        values.back().empty() ||
        std::string_view("[{,: ").find(values.back().back()) != std::string_view::npos;
    if ((letter == '"' || letter == '\'') && begins_word) quote = letter;
    if (letter == '[' || letter == '{') ++depth;
    if (letter == ']' || letter == '}') --depth;
    if (depth == 0 && separators.find(letter) != std::string::npos) {
      values.emplace_back();
    } else {
      values.back() += letter;
    }
  }
  return values;
}

std::string last_word(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Returns the value with '-' in place of ASCII characters that a shell may need quotes for, and of
// all others if the value is not UTF-8.
std::string plain(const std::string& value) {
  const bool is_text = is_line_of_text(value);
  std::string result;
  for (const char letter : value) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool is_plain = byte < 0x80 ? std::isalnum(byte) != 0 ||
                                            std::string("._+-").find(letter) != std::string::npos
                                      : is_text;
    result += is_plain ? letter : '-';
  }
  return result;
}

// Cuts a name that is too long for a file, and appends a hash that distinguishes it from others.
std::string short_file_name(const std::string& name) {
  constexpr std::size_t kMaxBytes = 200, kHashDigits = 16;
  if (name.size() <= kMaxBytes) return name;
  Sha256 hash;
  hash.update({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()});
  return concat(name.substr(0, kMaxBytes - kHashDigits - 1), "-",
                hash.hex().substr(0, kHashDigits));
}

}  // namespace

Axis parse_axis(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) wrong_axis(text);
  Axis axis{text.substr(0, equals), split_values(text.substr(equals + 1), ",")};
  if (std::ranges::find(axis.values, "") != axis.values.end()) wrong_axis(text);
  return axis;
}

std::vector<Axis> axes_of_environment(const config::Environment& environment,
                                      const std::vector<Axis>& given,
                                      const std::string& learning_rate_key) {
  std::vector<Axis> axes;
  for (const auto& [variable, key] :
       {std::pair<std::string, std::string>{"NUM_GPUS", "parallel.gpus"},
        {"BATCH_SIZE", "train.batch_size"},
        {"LEARNING_RATE", learning_rate_key},
        {"SEEDS", "seed"}}) {
    const auto found = environment.find(variable);
    if (found == environment.end()) continue;
    Axis axis{key, split_values(found->second, ", \t\n"), variable};
    std::erase(axis.values, "");
    const bool is_given =
        std::ranges::any_of(given, [&](const Axis& other) { return other.key == axis.key; });
    if (!axis.values.empty() && !is_given) axes.push_back(std::move(axis));
  }
  return axes;
}

std::string learning_rate_key(const config::Config& config) {
  if (std::holds_alternative<config::RampUpSchedule>(config.schedule.kind)) {
    return "schedule.ramp_up.peak";
  }
  for (const auto& [key, value] : config::leaves(config)) {
    if (key.starts_with("optimizer.") && key.ends_with(".learning_rate")) return key;
  }
  throw std::logic_error("an optimizer without a learning rate");
}

std::string short_name(const std::string& key, const std::vector<Axis>& axes) {
  const auto alike = std::ranges::count_if(
      axes, [&](const Axis& axis) { return last_word(axis.key) == last_word(key); });
  return alike > 1 ? key : last_word(key);
}

std::vector<Point> make_points(const std::vector<Axis>& axes, std::int64_t max_points) {
  std::int64_t count = 1;
  for (const Axis& axis : axes) {
    if (__builtin_mul_overflow(count, std::ssize(axis.values), &count)) {
      count = std::numeric_limits<std::int64_t>::max();
      break;
    }
  }
  if (count > max_points) {
    throw ConfigError({}, "the sweep has ", count, " points, the limit is ", max_points,
                      ": give fewer values, or raise the limit with --max-points ", count);
  }
  std::vector<Point> points{{}};
  for (const Axis& axis : axes) {
    std::vector<Point> longer;
    for (const Point& point : points) {
      for (const std::string& value : axis.values) {
        Point next = point;
        next.name += concat(next.name.empty() ? "" : "_", plain(short_name(axis.key, axes)), "=",
                            plain(value));
        next.values.emplace_back(axis.key, value);
        if (!axis.variable.empty()) next.environment[axis.variable] = value;
        longer.push_back(std::move(next));
      }
    }
    points = std::move(longer);
  }
  std::set<std::string> names;
  for (Point& point : points) {
    point.name = short_file_name(point.name);
    if (names.insert(point.name).second) continue;
    throw ConfigError({}, "two points of the sweep are called ", point.name,
                      ": give every value of --over once");
  }
  if (axes.empty()) points.front().name = "run";
  return points;
}

}  // namespace trainer::results
