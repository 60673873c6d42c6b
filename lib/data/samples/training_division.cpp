#include "data/samples/training_division.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "data/samples/groups.h"

namespace trainer::data {
namespace {

// Returns the share of the samples that the config asks for.
double find_share(const config::Data& data) {
  return data.fold ? 1.0 / static_cast<double>(*data.folds) : data.validation_split;
}

// Returns a checksum of which samples are in one group. It does not depend on the names of groups,
// because a pattern may take them from the folder of the files, which may change.
std::string checksum_groups(std::span<const std::string> groups) {
  const std::vector<std::int64_t> numbers = number_groups(groups, groups.size()).by_sample;
  return to_hex(crc32c(
      {reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size() * sizeof numbers[0]}));
}

// Returns the number of groups, in their order, whose samples number closest to `samples`: at least
// one group, and not all.
std::int64_t find_boundary(const Groups& groups, std::int64_t samples) {
  std::vector<std::int64_t> sizes(groups.count);
  for (const std::int64_t group : groups.by_sample) ++sizes[group];
  std::int64_t best = 1, counted = 0, best_distance = 0;
  for (std::int64_t count = 1; count < groups.count; ++count) {
    counted += sizes[count - 1];
    const std::int64_t distance = std::abs(counted - samples);
    if (count > 1 && distance >= best_distance) continue;
    best = count;
    best_distance = distance;
  }
  return best;
}

// Draws a number in [0, limit] as random_interval() of NumPy's RandomState.
std::uint32_t draw_up_to(std::uint32_t limit, std::mt19937& random) {
  const auto mask = static_cast<std::uint32_t>(std::bit_ceil(std::uint64_t{limit} + 1) - 1);
  for (;;) {
    const auto number = static_cast<std::uint32_t>(random()) & mask;
    if (number <= limit) return number;
  }
}

// Shuffles as RandomState(seed).shuffle() of NumPy, with the lower 32 bits of the seed.
void shuffle_as_numpy(std::vector<std::int64_t>& list, std::uint64_t seed) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  for (std::size_t i = list.size() - 1; i > 0; --i) {
    std::swap(list[i], list[draw_up_to(static_cast<std::uint32_t>(i), random)]);
  }
}

// Sets the last samples of `order` aside, but for the first `trained` ones as far as whole groups
// allow. Throws DataError if a part would be empty.
Division take_last_samples(const config::Data& data, std::span<const std::string> groups,
                           const std::vector<std::int64_t>& order, std::int64_t trained) {
  std::vector<std::string> ordered;
  if (!groups.empty()) {
    for (const std::int64_t i : order) ordered.push_back(groups[i]);
  }
  const Groups numbered = number_groups(ordered, order.size());
  if (trained < 1 || trained >= std::ssize(order) || numbered.count < 2) {
    throw DataError("data.validation_split", data.validation_split, " of the ", order.size(),
                    " training samples",
                    groups.empty() ? "" : concat(" in ", numbered.count, " groups"),
                    " leaves no sample for ", trained < 1 ? "training" : "validation",
                    "; give more samples or another fraction");
  }
  const std::int64_t boundary = find_boundary(numbered, trained);
  Division division;
  for (std::size_t i = 0; i < order.size(); ++i) {
    (numbered.by_sample[i] < boundary ? division.train : division.validation).push_back(order[i]);
  }
  std::ranges::sort(division.train);
  std::ranges::sort(division.validation);
  return division;
}

// Divides as Keras, whose two functions round differently: train_validation_split() of fit(), and
// get_training_or_validation_split() of image_dataset_from_directory().
Division divide_as_keras(const config::Data& data, std::size_t samples,
                         std::span<const std::string> groups, std::uint64_t seed) {
  const auto count = static_cast<double>(samples);
  std::vector<std::int64_t> order(samples);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (data.validation_split_order == config::ValidationSplitOrder::kLast) {
    const double trained = std::floor(count * (1.0 - data.validation_split));
    return take_last_samples(data, groups, order, static_cast<std::int64_t>(trained));
  }
  if (!order.empty()) shuffle_as_numpy(order, seed);
  const auto taken = static_cast<std::int64_t>(data.validation_split * count);
  return take_last_samples(data, groups, order, std::ssize(order) - taken);
}

}  // namespace

Division divide_training_samples(const config::Data& data, const Strata& strata,
                                 std::span<const std::string> groups, std::uint64_t seed) {
  if (config::find_division_order(data) != config::ValidationSplitOrder::kStratified) {
    return divide_as_keras(data, strata.samples(), groups, seed);
  }
  if (!data.fold && groups.empty() && strata.is_by_class()) {
    return divide_samples(strata.classes(), data.validation_split, seed);
  }
  std::vector<double> shares{1 - data.validation_split, data.validation_split};
  std::int32_t validation = 1;
  if (data.fold) {
    shares.assign(*data.folds, find_share(data));
    validation = static_cast<std::int32_t>(*data.fold) - 1;
  }
  const Groups numbered = number_groups(groups, strata.samples());
  const std::vector<std::int32_t> parts = divide_groups(strata, numbered, shares, seed);
  Division division;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    (parts[i] == validation ? division.validation : division.train)
        .push_back(static_cast<std::int64_t>(i));
  }
  return division;
}

std::string describe_rule(const config::Data& data) {
  if (data.fold) return concat("fold ", *data.fold, " of ", *data.folds);
  const std::string rule = concat("data.validation_split: ", data.validation_split);
  switch (data.validation_split_order) {
    case config::ValidationSplitOrder::kStratified:
      return rule;
    case config::ValidationSplitOrder::kLast:
      return rule + " (the last samples)";
    case config::ValidationSplitOrder::kShuffled:
      return rule + " (the last samples after a shuffle)";
  }
  return rule;
}

std::string describe_division_key(const config::Data& data, const Strata& strata,
                                  std::span<const std::string> groups, std::uint64_t seed) {
  const std::string by_group = groups.empty() ? "" : " groups " + checksum_groups(groups);
  const config::ValidationSplitOrder order = config::find_division_order(data);
  const std::string by_seed = concat(" seed ", seed);
  if (order != config::ValidationSplitOrder::kStratified) {
    const bool is_shuffled = order == config::ValidationSplitOrder::kShuffled;
    return concat(", split ", spell(order), ' ', data.validation_split, by_group,
                  is_shuffled ? by_seed : "");
  }
  std::string key = data.fold ? concat(", ", describe_rule(data))
                              : concat(", split by class ", data.validation_split);
  if (!strata.is_by_class()) key += " by label";
  return concat(key, by_group, by_seed);
}

std::string describe_shares(const config::Data& data, const Strata& strata,
                            const Division& division, const std::vector<std::string>& classes) {
  struct Counts {
    double all = 0, validation = 0;
  };
  std::map<std::int32_t, Counts> counts;
  for (std::size_t i = 0; i < strata.samples(); ++i) {
    for (const std::int32_t stratum : strata.of_sample(i)) ++counts[stratum].all;
  }
  for (const std::int64_t i : division.validation) {
    for (const std::int32_t stratum : strata.of_sample(i)) {
      ++counts[stratum].validation;
    }
  }
  std::string text = concat(describe_rule(data), " sets ",
                            percent(static_cast<double>(division.validation.size()) /
                                    static_cast<double>(strata.samples())),
                            " of the samples aside (", percent(find_share(data)), " asked for)");
  std::vector<std::pair<double, std::string>> shares;  // by class
  for (const auto& [label, count] : counts) {
    if (label < 0) continue;
    const std::size_t at = label;
    shares.emplace_back(count.validation / count.all,
                        at < classes.size() ? classes[at] : std::to_string(label));
  }
  const char* const by = strata.is_by_class() ? ", by class " : ", by label ";
  constexpr std::size_t kMaxListed = 8;
  std::vector<std::string> listed;
  if (shares.size() <= kMaxListed) {
    for (const auto& [share, name] : shares) listed.push_back(concat(name, ' ', percent(share)));
    return listed.empty() ? text : concat(text, by, join(listed));
  }
  const auto [low, high] = std::ranges::minmax_element(shares);
  return concat(text, by, "from ", percent(low->first), " (", low->second, ") to ",
                percent(high->first), " (", high->second, ')');
}

std::string describe_groups(std::span<const std::string> groups) {
  const Groups numbered = number_groups(groups, groups.size());
  const auto samples = std::ssize(groups);
  std::string text = concat(grouped(samples - numbered.ungrouped), " files in ",
                            grouped(numbered.count - numbered.ungrouped), " groups");
  if (numbered.ungrouped > 0) {
    text += concat(", and ", grouped(numbered.ungrouped),
                   numbered.ungrouped == 1 ? " file that is a group of its own"
                                           : " files that are groups of their own");
  }
  return text;
}

}  // namespace trainer::data
