#include "data/samples/training_division.h"

#include <algorithm>
#include <map>
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

}  // namespace

Division divide_training_samples(const config::Data& data, const Strata& strata,
                                 std::span<const std::string> groups, std::uint64_t seed) {
  if (!data.fold && groups.empty() && strata.is_by_class()) {
    return divide_samples(strata.classes(), data.validation_split, seed);
  }
  std::vector<double> shares{1 - data.validation_split, data.validation_split};
  std::int32_t validation = 1;
  if (data.fold) {
    shares.assign(static_cast<std::size_t>(*data.folds), find_share(data));
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
  return concat("data.validation_split: ", data.validation_split);
}

std::string describe_division_key(const config::Data& data, const Strata& strata,
                                  std::span<const std::string> groups, std::uint64_t seed) {
  std::string key = data.fold ? concat(", ", describe_rule(data))
                              : concat(", split by class ", data.validation_split);
  if (!strata.is_by_class()) key += " by label";
  if (!groups.empty()) key += " groups " + checksum_groups(groups);
  return concat(key, " seed ", seed);
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
    for (const std::int32_t stratum : strata.of_sample(static_cast<std::size_t>(i))) {
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
    const auto at = static_cast<std::size_t>(label);
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
  const auto [low, high] = std::minmax_element(shares.begin(), shares.end());
  return concat(text, by, "from ", percent(low->first), " (", low->second, ") to ",
                percent(high->first), " (", high->second, ')');
}

std::string describe_groups(std::span<const std::string> groups) {
  const Groups numbered = number_groups(groups, groups.size());
  const auto samples = static_cast<std::int64_t>(groups.size());
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
