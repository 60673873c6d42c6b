#include "commands/plan/link.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace trainer::commands {
namespace {

// The limits of cluster/collective/exchange.cpp, peer_communicator.cpp and halving_doubling.cpp.
constexpr std::int64_t kMaxShortBytes = 64 << 10, kMaxTreeBytes = 4 << 20,
                       kMaxSmallMessageBytes = 16 << 10;

struct Quantity {
  double value = 0;
  std::string unit;
};

// A number above 0 (or 0 when allowed) and what follows it, blanks around it left out.
Quantity split(const std::string& name, const std::string& text, bool zero,
               const std::string& expected) {
  Quantity found;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, found.value);
  const bool fits = found.value > 0 || (zero && found.value == 0);
  if (error != std::errc() || !std::isfinite(found.value) || !fits) {
    throw ConfigError({}, name, ": expected ", expected, ", found '", text, "'");
  }
  found.unit.assign(rest, end);
  const auto first = found.unit.find_first_not_of(' ');
  found.unit = first == std::string::npos ? "" : found.unit.substr(first);
  return found;
}

[[noreturn]] void wrong_unit(const std::string& name, const std::string& text,
                             const std::string& expected) {
  throw ConfigError({}, name, ": expected ", expected, ", found '", text, "'");
}

}  // namespace

double parse_bandwidth(const std::string& name, const std::string& text) {
  const std::string expected =
      "a bandwidth above 0 with its unit, such as 100Gbit or 12.5GB/s (K, M, G, T, Ki, Mi or Gi; "
      "bit or B)";
  const Quantity found = split(name, text, false, expected);
  std::string unit = found.unit;
  if (unit.ends_with("/s")) unit.resize(unit.size() - 2);
  double factor = 0;
  if (unit.ends_with("bit")) {
    factor = 1.0 / 8;
    unit.resize(unit.size() - 3);
  } else if (unit.ends_with("B")) {
    factor = 1;
    unit.resize(unit.size() - 1);
  }
  constexpr std::array<std::pair<const char*, double>, 8> kPrefixes{{{"", 1.0},
                                                                     {"K", 1e3},
                                                                     {"M", 1e6},
                                                                     {"G", 1e9},
                                                                     {"T", 1e12},
                                                                     {"Ki", 1024.0},
                                                                     {"Mi", 1048576.0},
                                                                     {"Gi", 1073741824.0}}};
  for (const auto& [prefix, scale] : kPrefixes) {
    if (factor > 0 && unit == prefix) return found.value * factor * scale;
  }
  wrong_unit(name, text, expected);
}

double parse_seconds(const std::string& name, const std::string& text, bool zero) {
  const std::string expected = concat("a time ", zero ? "of at least 0" : "above 0",
                                      " with its unit (s, ms, us or ns), such as 120ms");
  const Quantity found = split(name, text, zero, expected);
  constexpr std::array<std::pair<const char*, double>, 4> kUnits{
      {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};
  for (const auto& [unit, scale] : kUnits) {
    if (found.unit == unit) return found.value * scale;
  }
  wrong_unit(name, text, expected);
}

double all_reduce_seconds(config::Collective collective, std::int64_t bytes, std::int64_t ranks,
                          const Link& link) {
  if (ranks <= 1) return 0;
  const auto p = static_cast<double>(ranks), n = static_cast<double>(bytes);
  if (bytes * ranks <= kMaxShortBytes) return link.latency + n * (p - 1) / link.bandwidth;
  const bool is_power = std::has_single_bit(static_cast<std::uint64_t>(ranks));
  const double halves = 2 * n * (p - 1) / (p * link.bandwidth);
  const bool is_ring = collective == config::Collective::kRing || !is_power;
  if (is_ring && bytes > kMaxTreeBytes) {
    return 2 * (p - 1) * (link.latency + n / (p * link.bandwidth));
  }
  if (is_ring) return 2 * link.latency + halves;
  const double rounds = std::log2(p);
  if (bytes <= kMaxSmallMessageBytes) return rounds * (link.latency + n / link.bandwidth);
  return (2 * rounds - 1) * link.latency + halves;
}

}  // namespace trainer::commands
