#include "backend/exchange.h"

#include <doctest/doctest.h>

namespace trainer::backend {
namespace {

// Segments of whole cache lines with these numbers of elements.
std::vector<Segment> make_segments(const std::vector<std::int64_t>& counts) {
  std::vector<Segment> segments;
  std::int64_t offset = 0;
  for (const std::int64_t count : counts) {
    Segment segment;
    segment.offset = offset;
    segment.count = count;
    segments.push_back(segment);
    offset += (count + 15) / 16 * 16;
  }
  return segments;
}

}  // namespace

TEST_CASE("make_buckets: parameters up to the size share a bucket, none is divided") {
  const std::vector<Segment> segments = make_segments({10, 16, 100, 3, 16});
  const auto ends = [&](std::int64_t bytes) {
    std::vector<std::int64_t> all;
    std::int64_t first = 0;
    for (const Slice bucket : make_buckets(segments, 176, bytes)) {
      CHECK(bucket.first == first);
      first = bucket.last;
      all.push_back(bucket.last);
    }
    return all;
  };
  CHECK(ends(4) == std::vector<std::int64_t>{16, 32, 144, 160, 176});
  CHECK(ends(128) == std::vector<std::int64_t>{32, 144, 176});
  CHECK(ends(129) == std::vector<std::int64_t>{144, 176});
  CHECK(ends(1 << 20) == std::vector<std::int64_t>{176});
}

TEST_CASE(
    "find_bucket_ends returns an instruction of each bucket that is not before those of earlier "
    "buckets") {
  const std::vector<std::pair<int, std::int64_t>> steps{{2, 16}, {3, 48}, {7, 0}, {9, 32}};
  const std::vector<Slice> buckets{{0, 16}, {16, 32}, {32, 64}};
  const std::vector<std::pair<int, std::size_t>> expected{{7, 0}, {7, 1}, {9, 2}};
  CHECK(find_bucket_ends(steps, buckets) == expected);
}

TEST_CASE("Trailer: statistics of the ranks that have moved them are averaged") {
  std::vector<float> one{1, 2}, other{5, 8}, idle{100, 200}, sum(4);
  Trailer first({one}, true), second({other}, true), third({idle}, true);
  for (Trailer* trailer : {&first, &second, &third}) trailer->remember();
  first.statistics_moved();
  second.statistics_moved();
  for (const Trailer* trailer : {&first, &second, &third}) {
    REQUIRE(trailer->size() == sum.size());
    std::vector<float> part(trailer->size());
    trailer->write(part, true);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  CHECK(first.read(sum));
  CHECK(third.read(sum));
  CHECK(one == std::vector<float>{3, 5});
  CHECK(idle == std::vector<float>{3, 5});
}

TEST_CASE("Trailer: all ranks restore their statistics if the loss of one is not finite") {
  std::vector<float> one{1, 2}, other{5, 8};
  Trailer first({one}, true), second({other}, true);
  first.remember();
  second.remember();
  one = {10, 20};
  other = {50, 80};
  first.statistics_moved();
  second.statistics_moved();
  std::vector<float> sum(4), part(4);
  first.write(sum, true);
  second.write(part, false);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  CHECK_FALSE(first.read(sum));
  CHECK_FALSE(second.read(sum));
  CHECK(one == std::vector<float>{1, 2});
  CHECK(other == std::vector<float>{5, 8});
}

}  // namespace trainer::backend
