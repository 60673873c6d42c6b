#include "backend/cpu/lanes/batch_shares.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace trainer::backend::cpu {
namespace {

ReductionOptions ordered(std::int64_t micro_batches) {
  ReductionOptions options;
  options.ordered = true;
  options.micro_batches = micro_batches;
  return options;
}

// The first samples of all micro-batches of all lanes, then the end.
std::vector<std::int64_t> list_cuts(std::span<const LaneShare> shares) {
  std::vector<std::int64_t> cuts;
  for (const LaneShare& share : shares) {
    cuts.insert(cuts.end(), share.bounds.begin(), share.bounds.end() - 1);
  }
  cuts.push_back(shares.back().bounds.back());
  return cuts;
}

TEST_CASE("batch shares have every sample once, evenly, in micro-batches of a bounded size") {
  for (const int lanes : {1, 2, 3, 8}) {
    BatchShares shares(lanes, 64, {});
    for (const std::int64_t samples : {0, 1, 2, 7, 64, 65, 127, 128, 129, 1000}) {
      CAPTURE(lanes);
      CAPTURE(samples);
      std::int64_t next = 0, most = 0, least = samples;
      for (const LaneShare& share : shares.of(samples, samples)) {
        CHECK(share.bounds.front() == next);
        next = share.bounds.back();
        most = std::max(most, share.count());
        least = std::min(least, share.count());
        for (std::int64_t i = 0; i < share.micro_batches(); ++i) {
          CHECK(share.micro_batch_first(i) == share.bounds[static_cast<std::size_t>(i)]);
          CHECK(share.micro_batch_count(i) >= 1);
          CHECK(share.micro_batch_count(i) <= 64);
        }
      }
      CHECK(next == samples);
      CHECK(most - least <= 1);
    }
  }
}

TEST_CASE("batch shares: the first lanes have the samples that do not divide") {
  BatchShares shares(4, 64, {});
  std::vector<std::int64_t> counts;
  for (const LaneShare& share : shares.of(6, 6)) counts.push_back(share.count());
  CHECK(counts == std::vector<std::int64_t>{2, 2, 1, 1});
  CHECK(shares.of(2, 2)[2].micro_batches() == 0);
}

TEST_CASE("batch shares: ordered micro-batches are the same for every number of lanes") {
  for (const std::int64_t samples : {3, 8, 61, 64, 1000}) {
    CAPTURE(samples);
    BatchShares one(1, 64, ordered(8));
    const std::vector<std::int64_t> expected = list_cuts(one.of(samples, samples));
    CHECK(expected.size() == 9);
    for (const int lanes : {2, 3, 4, 5, 6, 7, 8}) {
      BatchShares several(lanes, 64, ordered(8));
      CHECK(list_cuts(several.of(samples, samples)) == expected);
    }
  }
}

TEST_CASE("batch shares: ordered sums need a power of two with a micro-batch per lane") {
  CHECK_THROWS_AS(BatchShares(2, 64, ordered(6)), std::logic_error);
  CHECK_THROWS_AS(BatchShares(9, 64, ordered(8)), std::logic_error);
  CHECK_THROWS_AS(BatchShares(16, 64, ordered(8)), std::logic_error);
  BatchShares shares(2, 64, ordered(8));
  CHECK_THROWS_AS(shares.of(4, 8), std::logic_error);  // not this rank's part
}

}  // namespace
}  // namespace trainer::backend::cpu
