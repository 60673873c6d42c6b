#include "data/arrays/idx.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>

#include "base/error.h"
#include "data/arrays/array.h"
#include "data/arrays/gzip.h"
#include "data/arrays/idx_files.h"

namespace trainer::data {
namespace {

Path write(const TemporaryFolder& folder, const Bytes& bytes) {
  const Path path = folder.path() / "a-idx";
  write_file_atomic(path, bytes);
  return path;
}

std::vector<double> values(const Array& array) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < array.count(); ++i) result.push_back(array.at(i));
  return result;
}

}  // namespace

TEST_CASE("read_idx reads every type with big-endian elements") {
  const TemporaryFolder folder;
  const Array bytes = read_idx(write(folder, idx_bytes(0x08, {2, 3}, {1, 2, 3, 4, 5, 255})));
  CHECK(bytes.dims == std::vector<std::int64_t>{2, 3});
  CHECK(values(bytes) == std::vector<double>{1, 2, 3, 4, 5, 255});
  CHECK(values(read_idx(write(folder, idx_bytes(0x09, {2}, {1, 255})))) ==
        std::vector<double>{1, -1});
  CHECK(values(read_idx(write(folder, idx_bytes(0x0B, {2}, {1, 2, 255, 254})))) ==
        std::vector<double>{258, -2});
  CHECK(values(read_idx(write(folder, idx_bytes(0x0C, {1}, {0, 1, 0, 2})))) ==
        std::vector<double>{65538});
  CHECK(values(read_idx(write(folder, idx_bytes(0x0D, {1}, {0xC0, 0x20, 0, 0})))) ==
        std::vector<double>{-2.5});
  CHECK(values(read_idx(write(folder, idx_bytes(0x0E, {1}, {0x3F, 0xF8, 0, 0, 0, 0, 0, 0})))) ==
        std::vector<double>{1.5});
}

TEST_CASE("read_maybe_gzip detects a gzip file of several members by its content") {
  const TemporaryFolder folder;
  const Bytes plain = idx_bytes(0x08, {100, 50}, Bytes(5000, 9));
  const Array array = read_idx(write(folder, gzip_bytes(plain)));
  CHECK(array.count() == 5000);
  CHECK(array.at(4999) == 9);

  // Cut in two members, of which the last, whose size stands at the end, is the smaller one.
  const auto middle = plain.end() - 10;
  Bytes both = gzip_bytes(Bytes(plain.begin(), middle));
  const Bytes second = gzip_bytes(Bytes(middle, plain.end()));
  both.insert(both.end(), second.begin(), second.end());
  CHECK(read_idx(write(folder, both)).count() == 5000);
}

TEST_CASE("read_idx: the error of damaged and foreign files has path and reason") {
  const TemporaryFolder folder;
  const auto refuses = [&](const Bytes& bytes, const char* why) {
    const Path path = write(folder, bytes);
    CHECK_THROWS_WITH_AS(read_idx(path), doctest::Contains(why), DataError);
    CHECK_THROWS_WITH_AS(read_idx(path), doctest::Contains(path.c_str()), DataError);
  };
  const Bytes plain = idx_bytes(0x08, {4, 3}, Bytes(12, 1));
  refuses({}, "contains only 0 bytes");
  refuses({'P', 'K', 3, 4, 0, 0}, "starts with 50 4b 03 04");
  refuses(idx_bytes(0x07, {1}, {1}), "is not an IDX file");
  refuses(Bytes(plain.begin(), plain.end() - 1), "4 x 3 elements");
  refuses(Bytes(plain.begin(), plain.begin() + 7), "ends inside its header");
  Bytes longer = plain;
  longer.push_back(0);
  refuses(longer, "13 bytes follow (expected 12)");
  refuses(idx_bytes(0x08, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {1}), "truncated");

  const Bytes packed = gzip_bytes(plain);
  for (std::size_t size = 2; size < packed.size(); ++size) {
    refuses(Bytes(packed.begin(), packed.begin() + static_cast<long>(size)), "gzip");
  }
  for (std::size_t i = 10; i < packed.size(); ++i) {
    Bytes damaged = packed;
    damaged[i] ^= 0x55;
    CHECK_THROWS_AS(read_idx(write(folder, damaged)), DataError);
  }
  CHECK_THROWS_AS(read_idx(folder.path() / "missing"), DataError);
  CHECK_THROWS_AS(read_idx(folder.path()), DataError);
}

TEST_CASE("read_maybe_gzip rejects a FIFO without a wait") {
  const TemporaryFolder folder;
  const Path fifo = folder.path() / "images";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(read_maybe_gzip(fifo), doctest::Contains("is a FIFO, expected a file"),
                       DataError);
}

TEST_CASE("read_maybe_gzip rejects a small file that expands to hundreds of megabytes") {
  const TemporaryFolder folder;
  const Bytes bomb = gzip_bytes(Bytes((320 << 20) + 1));
  REQUIRE(bomb.size() < 1 << 20);
  CHECK_THROWS_WITH_AS(read_maybe_gzip(write(folder, bomb)),
                       doctest::Contains("which expand to more than 335544320"), DataError);
}

}  // namespace trainer::data
