#include "base/numbers/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

namespace trainer {

using Block = std::array<std::uint32_t, 4>;

// The known answers of Random123 (kat_vectors, philox4x32 10).
TEST_CASE("philox4x32 returns the published numbers for known keys and counters") {
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE(
    "Random: equal coordinates give equal sequences, and any other coordinate gives another one") {
  const auto first = [](Random random) { return random.next_u64(); };
  CHECK(first(Random(1, Stream::kShuffle, 2, 3)) == first(Random(1, Stream::kShuffle, 2, 3)));
  const std::set<std::uint64_t> all{first(Random(1, Stream::kShuffle, 2, 3)),
                                    first(Random(2, Stream::kShuffle, 2, 3)),
                                    first(Random(1, Stream::kAugment, 2, 3)),
                                    first(Random(1, Stream::kShuffle, 3, 3)),
                                    first(Random(1, Stream::kShuffle, 2, 4)),
                                    first(Random(1ull << 40, Stream::kShuffle, 2, 3)),
                                    first(Random(1, Stream::kShuffle, 2, 3ull << 33))};
  CHECK(all.size() == 7);
}

TEST_CASE("Random: below() returns every number about equally often") {
  Random random(5, Stream::kSynthetic);
  std::vector<int> counts(7);
  constexpr int kDraws = 70000;
  for (int i = 0; i < kDraws; ++i) ++counts.at(random.below(7));
  // Six standard deviations of a binomial count.
  for (const int count : counts) CHECK(std::abs(count - kDraws / 7) < 6 * 93);
}

TEST_CASE("Random: uniform() and normal() have the mean and variance of their distribution") {
  Random random(6, Stream::kInitialise);
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    const double n = random.normal();
    REQUIRE(std::isfinite(n));
    sum += u;
    squares += u * u;
    normal_sum += n;
    normal_squares += n * n;
  }
  CHECK(sum / kDraws == doctest::Approx(0.5).epsilon(0.01));
  CHECK(squares / kDraws == doctest::Approx(1.0 / 3).epsilon(0.01));
  CHECK(std::abs(normal_sum / kDraws) < 0.02);
  CHECK(normal_squares / kDraws == doctest::Approx(1).epsilon(0.02));
}

}  // namespace trainer
