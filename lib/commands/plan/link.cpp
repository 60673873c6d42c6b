#include "commands/plan/link.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"

namespace trainer::commands {
namespace {

// The limits of cluster/collective/exchange.cpp, peer_communicator.cpp and halving_doubling.cpp.
constexpr std::int64_t kMaxShortBytes = 64 << 10, kMaxTreeBytes = 4 << 20,
                       kMaxSmallMessageBytes = 16 << 10;

// Returns a number above 0, or 0 when allowed, times the factor of the unit that follows it, with
// blanks before it left out.
double parse_quantity(const std::string& name, const std::string& text, bool zero,
                      const std::string& expected, const std::map<std::string, double>& factors) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const auto unit =
      factors.find(std::string(std::find_if(rest, end, [](char c) { return c != ' '; }), end));
  const bool fits = std::isfinite(value) && (value > 0 || (zero && value == 0));
  if (error != std::errc() || !fits || unit == factors.end()) {
    throw ConfigError({}, name, ": expected ", expected, ", found '", text, "'");
  }
  return value * unit->second;
}

}  // namespace

double parse_bandwidth(const std::string& name, const std::string& text) {
  const std::map<std::string, double> prefixes{
      {"", 1.0},   {"K", 1e3},     {"M", 1e6},        {"G", 1e9},
      {"T", 1e12}, {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}};
  std::map<std::string, double> factors;
  for (const auto& [prefix, factor] : prefixes) {
    factors[prefix + "bit"] = factors[prefix + "bit/s"] = factor / 8;
    factors[prefix + "B"] = factors[prefix + "B/s"] = factor;
  }
  return parse_quantity(
      name, text, false,
      "a bandwidth above 0 with its unit, such as 100Gbit or 12.5GB/s (K, M, G, T, Ki, Mi or Gi; "
      "bit or B)",
      factors);
}

double parse_seconds(const std::string& name, const std::string& text, bool zero) {
  return parse_quantity(name, text, zero,
                        concat("a time ", zero ? "of at least 0" : "above 0",
                               " with its unit (s, ms, us or ns), such as 120ms"),
                        {{"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}});
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
