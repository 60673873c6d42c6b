#include "data/samples/groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/numbers/random.h"

namespace trainer::data {
namespace {

// The random numbers differ from those of draw_files() and of a division without groups.
constexpr std::uint64_t kGroupDraws = std::uint64_t{1} << 32;

// The samples of one group in one stratum; `stratum` counts the strata that occur, from 0.
struct StratumCount {
  std::size_t stratum = 0;
  std::int64_t samples = 0;
};

// Returns how many of `count` samples of a stratum each part is to have: the integer part of its
// share, and one more for the largest fractions. `owed` has the fractions that the parts did not
// get of earlier strata, so that the parts also have their shares of all samples.
std::vector<std::int64_t> find_targets(std::int64_t count, std::span<const double> shares,
                                       std::vector<double>& owed) {
  constexpr double kRounding = 1e-9;
  std::vector<std::int64_t> targets;
  std::vector<std::pair<double, std::size_t>> fractions;
  std::int64_t left = count;
  for (std::size_t part = 0; part < shares.size(); ++part) {
    const double share = shares[part] * static_cast<double>(count);
    targets.push_back(static_cast<std::int64_t>(std::floor(share + kRounding)));
    left -= targets.back();
    const double fraction = share - static_cast<double>(targets.back());
    owed[part] += fraction;
    // A part whose share is a whole number gets exactly this share.
    if (fraction > kRounding) fractions.emplace_back(owed[part], part);
  }
  std::ranges::stable_sort(fractions,
                           [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [fraction, part] : fractions) {
    if (left <= 0) break;
    ++targets[part];
    owed[part] -= 1;
    --left;
  }
  return targets;
}

// Moves whole groups between parts.
class GroupDivider {
 public:
  GroupDivider(const Strata& strata, const Groups& groups, std::span<const double> shares)
      : parts_(shares.size()),
        counts_(groups.count),
        part_of_(counts_.size(), kNone),
        groups_in_(parts_) {
    std::map<std::int32_t, std::size_t> numbers;
    for (std::size_t i = 0; i < strata.samples(); ++i) {
      for (const std::int32_t stratum : strata.of_sample(i)) numbers.emplace(stratum, 0);
    }
    for (auto& [stratum, number] : numbers) {
      number = sizes_.size();
      sizes_.push_back(0);
    }
    for (std::size_t i = 0; i < strata.samples(); ++i) {
      auto& counts = counts_[groups.by_sample[i]];
      for (const std::int32_t stratum : strata.of_sample(i)) {
        const std::size_t number = numbers.at(stratum);
        ++sizes_[number];
        const auto found = std::ranges::find(counts, number, &StratumCount::stratum);
        if (found != counts.end()) {
          ++found->samples;
        } else {
          counts.push_back({number, 1});
        }
      }
    }
    excess_.resize(parts_ * sizes_.size());
    std::vector<double> owed(parts_);
    for (std::size_t stratum = 0; stratum < sizes_.size(); ++stratum) {
      const std::vector<std::int64_t> targets = find_targets(sizes_[stratum], shares, owed);
      for (std::size_t part = 0; part < parts_; ++part) excess(part, stratum) = -targets[part];
    }
  }

  std::vector<std::size_t> divide(Random& random) {
    std::vector<std::size_t> order(counts_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random.below(i)]);
    }
    for (const std::size_t group : order) move(group, find_best_part(group));
    // Every move lowers the cost, of which there are finitely many values; the limit bounds time.
    constexpr int kMaxPasses = 100;
    bool has_moved = true;
    for (int pass = 0; has_moved && pass < kMaxPasses; ++pass) {
      has_moved = false;
      for (const std::size_t group : order) {
        const std::size_t best = find_best_part(group);
        if (best == part_of_[group]) continue;
        move(group, best);
        has_moved = true;
      }
    }
    fill_empty_parts(order);
    return part_of_;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  std::int64_t& excess(std::size_t part, std::size_t stratum) {
    return excess_[part * sizes_.size() + stratum];
  }

  void add_to_excess(std::size_t part, std::size_t group) {
    for (const auto& [stratum, samples] : counts_[group]) excess(part, stratum) += samples;
  }

  void remove_from_excess(std::size_t part, std::size_t group) {
    for (const auto& [stratum, samples] : counts_[group]) excess(part, stratum) -= samples;
  }

  // Returns how much the cost of a part rises if a group is added to it, which it does not have.
  // The cost is the sum over strata of the squared excess, divided by the size of the stratum.
  double find_cost(std::size_t group, std::size_t part) {
    double cost = 0;
    for (const auto& [stratum, samples] : counts_[group]) {
      const auto count = static_cast<double>(samples);
      cost += count * (count + 2 * static_cast<double>(excess(part, stratum))) /
              static_cast<double>(sizes_[stratum]);
    }
    return cost;
  }

  void move(std::size_t group, std::size_t part) {
    const std::size_t before = part_of_[group];
    if (before == part) return;
    if (before != kNone) {
      remove_from_excess(before, group);
      --groups_in_[before];
    }
    add_to_excess(part, group);
    ++groups_in_[part];
    part_of_[group] = part;
  }

  // Returns the part where a group costs least; the present one unless another is clearly better.
  std::size_t find_best_part(std::size_t group) {
    const std::size_t before = part_of_[group];
    constexpr double kMinGain = 1e-9;  // more than the rounding of the sums
    std::size_t best = before;
    double best_cost = 0;
    if (before != kNone) {
      // The cost is that of adding the group to the part without it.
      remove_from_excess(before, group);
      best_cost = find_cost(group, before);
    }
    for (std::size_t part = 0; part < parts_; ++part) {
      if (part == before) continue;
      const double cost = find_cost(group, part);
      if (best != kNone && cost >= best_cost - kMinGain) continue;
      best = part;
      best_cost = cost;
    }
    if (before != kNone) add_to_excess(before, group);
    return best;
  }

  // Gives each empty part the group that costs least. A share smaller than every group may leave a
  // part empty.
  void fill_empty_parts(const std::vector<std::size_t>& order) {
    for (std::size_t part = 0; part < parts_; ++part) {
      if (groups_in_[part] > 0) continue;
      std::size_t best = kNone;
      double best_cost = 0;
      for (const std::size_t group : order) {
        if (groups_in_[part_of_[group]] < 2) continue;
        const double cost = find_cost(group, part);
        if (best != kNone && cost >= best_cost) continue;
        best = group;
        best_cost = cost;
      }
      move(best, part);
    }
  }

  std::size_t parts_;
  std::vector<std::vector<StratumCount>> counts_;  // by group
  std::vector<std::size_t> part_of_;               // by group
  std::vector<std::int64_t> groups_in_;            // by part
  std::vector<std::int64_t> sizes_;                // samples by stratum
  std::vector<std::int64_t> excess_;  // by part and stratum: the samples beyond the part's target
};

}  // namespace

Groups number_groups(std::span<const std::string> names, std::size_t samples) {
  Groups groups;
  groups.by_sample.resize(samples);
  if (names.empty()) {
    std::iota(groups.by_sample.begin(), groups.by_sample.end(), std::int64_t{0});
    groups.count = groups.ungrouped = static_cast<std::int64_t>(samples);
    return groups;
  }
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < samples; ++i) {
    if (names[i].empty()) {
      groups.by_sample[i] = groups.count++;
      ++groups.ungrouped;
      continue;
    }
    const auto [found, is_new] = numbers.try_emplace(names[i], groups.count);
    if (is_new) ++groups.count;
    groups.by_sample[i] = found->second;
  }
  return groups;
}

void clear_if_ungrouped(std::vector<std::string>& names) {
  const bool has_groups =
      std::ranges::any_of(names, [](const std::string& name) { return !name.empty(); });
  if (!has_groups) names.clear();
}

std::vector<std::string> list_groups(const Dataset& dataset) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < dataset.size(); ++i) names.push_back(dataset.group_at(i));
  clear_if_ungrouped(names);
  return names;
}

std::vector<std::int32_t> divide_groups(const Strata& strata, const Groups& groups,
                                        std::span<const double> shares, std::uint64_t seed) {
  if (groups.count < std::ssize(shares)) {
    const bool is_grouped = groups.count < static_cast<std::int64_t>(strata.samples());
    throw DataError("data", "the ", strata.samples(), " training samples",
                    is_grouped ? concat(" in ", groups.count, " groups") : "",
                    " cannot be divided into ", shares.size(),
                    " parts; give more samples, fewer parts or smaller groups");
  }
  Random random(seed, Stream::kSplit, kGroupDraws);
  const std::vector<std::size_t> parts = GroupDivider(strata, groups, shares).divide(random);
  std::vector<std::int32_t> by_sample;
  for (const std::int64_t group : groups.by_sample) {
    by_sample.push_back(static_cast<std::int32_t>(parts[group]));
  }
  return by_sample;
}

}  // namespace trainer::data
