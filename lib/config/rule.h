// The constraints on the value of a key beyond its type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

namespace trainer::config {

// States whether a value may differ when a run is resumed.
enum class Resume {
  kSame,        // no
  kSameIfZero,  // yes, but not from or to 0, for which there is no optimizer slot
  kWarn,        // yes, with a warning
  kFree         // yes: it does not change the result
};

// The range holds for each number of a value. Rules are combined: at_least(1).required().
struct Rule {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  // A larger value is a mistake. The limit is not printed as part of the range.
  double limit = std::numeric_limits<double>::infinity();
  bool is_required = false;
  bool seconds = true;                             // durations: seconds are allowed
  bool allows_scalar = false;                      // lists: one entry may be given without a list
  std::size_t min_items = 0, max_items = 1000000;  // lists; an optional list may be empty too
  bool never_empty = false;                        // an optional list must not be empty
  bool is_recursive = false;          // lists: entries are of the type that has the list
  bool or_switch = false;             // maps: true stands for {}, false for nothing
  bool is_shorthand = false;          // a bare value of the section is the value of this key
  std::optional<Resume> resume = {};  // when left out, the value of the section above
  const char* default_key = "";  // the key of this section whose value is the default; "": none
  bool print_empty = true;       // an empty list or value is part of the effective config

  template <class T, class Value>
  Rule with(T Rule::*member, Value value) const {
    Rule rule = *this;
    rule.*member = value;
    return rule;
  }
  Rule required() const { return with(&Rule::is_required, true); }
  Rule allow_scalar() const { return with(&Rule::allows_scalar, true); }
  Rule not_empty() const { return with(&Rule::never_empty, true); }
  Rule recursive() const { return with(&Rule::is_recursive, true); }
  Rule shorthand() const { return with(&Rule::is_shorthand, true); }
  Rule or_true() const { return with(&Rule::or_switch, true); }
  Rule on_resume(Resume value) const { return with(&Rule::resume, value); }
  Rule default_from(const char* key) const { return with(&Rule::default_key, key); }
  Rule unless_empty() const { return with(&Rule::print_empty, false); }
  Rule items(std::size_t minimum, std::size_t maximum = 1000000) const {
    return with(&Rule::min_items, minimum).with(&Rule::max_items, maximum);
  }
};

inline Rule any() { return {}; }
inline Rule same_on_resume() { return any().on_resume(Resume::kSame); }
inline Rule warn_on_resume() { return any().on_resume(Resume::kWarn); }
inline Rule free_on_resume() { return any().on_resume(Resume::kFree); }
inline Rule at_least(double low) { return {.low = low}; }
inline Rule above(double low) { return {.low = low, .low_open = true}; }
inline Rule within(double low, double high) { return {.low = low, .high = high}; }
inline Rule below(double low, double high) { return {.low = low, .high = high, .high_open = true}; }
inline Rule inside(double low, double high) {
  return {.low = low, .high = high, .low_open = true, .high_open = true};
}
inline Rule no_seconds() { return {.seconds = false}; }

// Larger numbers than these are mistakes. They are above the cores of any machine and the memory
// for pixels, channels and samples, and would overflow sizes or exhaust the system before another
// check finds them.
inline constexpr std::int64_t kMaxThreads = 4096, kMaxPixels = 1 << 20, kMaxChannels = 1 << 24,
                              kMaxSamples = 1 << 24, kMaxRounds = 1000;
inline Rule pixels(double low) { return {.low = low, .limit = kMaxPixels}; }
inline Rule count_up_to(double limit) { return {.low = 1, .limit = limit}; }

// The largest number of replicas of one process.
inline constexpr std::int64_t kMaxReplicas = 64;

}  // namespace trainer::config
