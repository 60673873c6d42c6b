// Tar headers made by hand, as POSIX's pax format and GNU tar describe them.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/files/files.h"
#include "data/images/listing/shards.h"

namespace trainer::data {
namespace {

constexpr std::size_t kBlock = 512;

struct Entry {
  std::string name;
  std::string content;
  char type = '0';
  std::string size = "";    // the field; "": of the content, in octal digits
  std::string prefix = "";  // of ustar
  std::string magic = std::string("ustar\0", 6);
};

std::string padded(const std::string& text) {
  return text + std::string((kBlock - text.size() % kBlock) % kBlock, '\0');
}

std::string header(const Entry& entry) {
  std::string block(kBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    block.replace(at, text.size(), text);
  };
  char octal[16];
  std::snprintf(octal, sizeof octal, "%011zo", entry.content.size());
  put(0, entry.name);
  put(124, entry.size.empty() ? octal : entry.size);
  put(136, "7777777777");  // the time, whose digits are none of the size
  block[156] = entry.type;
  put(257, entry.magic);
  put(345, entry.prefix);
  unsigned sum = 8 * ' ';
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  put(148, octal);
  return block;
}

std::string make_tar(const std::vector<Entry>& entries, std::size_t zero_blocks = 2) {
  std::string file;
  for (const Entry& entry : entries) file += header(entry) + padded(entry.content);
  return file + std::string(zero_blocks * kBlock, '\0');
}

class Shard {
 public:
  std::vector<ShardSample> read(const std::string& file) {
    write_file_atomic(path_, file);
    return read_tar_shard(path_);
  }
  std::vector<ShardSample> read(const std::vector<Entry>& entries) {
    return read(make_tar(entries));
  }
  std::string error(const std::string& file) {
    try {
      read(file);
    } catch (const DataError& error) {
      return std::string(error.what()).substr(path_.string().size() + 2);
    }
    return "";
  }
  std::string error(const std::vector<Entry>& entries) { return error(make_tar(entries)); }

 private:
  TemporaryFolder folder_;
  Path path_ = folder_.path() / "x.tar";
};

std::string pax(const std::string& record) {
  // Its length counts its own digits.
  for (std::size_t length = record.size() + 3;; ++length) {
    const std::string all = std::to_string(length) + ' ' + record + '\n';
    if (all.size() == length) return all;
  }
}

}  // namespace

TEST_CASE("read_tar_shard matches names with dots to their labels") {
  Shard shard;
  const auto samples = shard.read({{"0.05.jpg", "a"},
                                   {"0.05.cls", "1"},
                                   {"0.1.json", "{\"label\": 2}"},
                                   {"0.1.png", "b"},
                                   {"7.left.jpg", "c"},
                                   {"7.cls", "3"}});
  REQUIRE(samples.size() == 3);
  CHECK(samples[0].name == "0.05.jpg");
  CHECK(samples[0].label == "1");
  CHECK(samples[1].name == "0.1.png");
  CHECK(samples[1].label == "2");
  CHECK(samples[2].label == "3");
  CHECK(shard.error({{"7.left.jpg", "a"}, {"7.right.jpg", "b"}, {"7.cls", "3"}}) ==
        "7.right.jpg: is the second image of its name");
}

TEST_CASE("tar headers: the size is read in all its forms") {
  Shard shard;
  const auto to_bytes = [&](const std::string& size) {
    const auto samples = shard.read({{"a.ppm", "12345678", '0', size}});
    REQUIRE(samples.size() == 1);
    CHECK(samples[0].offset == 512);
    return samples[0].bytes;
  };
  CHECK(to_bytes("") == 8);
  CHECK(to_bytes("00000000010 ") == 8);  // ends with a blank
  CHECK(to_bytes("000000000010") == 8);  // or with nothing
  CHECK(to_bytes("         10 ") == 8);
  CHECK(to_bytes(std::string("10\0 9", 5)) == 8);
  const std::string binary{'\x80', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8};  // of GNU
  CHECK(to_bytes(binary) == 8);
  for (const std::string wrong :
       {"0000000001x", "0000000008 ", "           ", "-0000000010", "000000010-10"}) {
    CAPTURE(wrong);
    CHECK(shard.error({{"a.ppm", "12345678", '0', wrong}}).find("has -1 bytes") !=
          std::string::npos);
  }
  const std::string large{'\x81', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8};
  CHECK(shard.error({{"a.ppm", "12345678", '0', large}}).find("is truncated or damaged") !=
        std::string::npos);
}

TEST_CASE("tar headers: files follow one another in whole blocks, to the end or to zeros") {
  Shard shard;
  for (const std::size_t size : {0, 1, 511, 512, 513, 1024}) {
    CAPTURE(size);
    const std::vector<Entry> entries{{"a.ppm", std::string(size, 'a')}, {"b.ppm", "b"}};
    for (const std::size_t zeros : {0, 1, 2}) {
      const auto samples = shard.read(make_tar(entries, zeros));
      REQUIRE(samples.size() == 2);
      CHECK(samples[0].bytes == static_cast<std::int64_t>(size));
      CHECK(samples[1].offset == static_cast<std::int64_t>(1024 + (size + 511) / 512 * 512));
    }
  }
  const std::string one = make_tar({{"a.ppm", "12345678"}}, 0);
  CHECK(shard.read(one.substr(0, 512 + 8)).size() == 1);  // the padding left out
  CHECK(shard.error(one.substr(0, 512 + 7)) ==
        "is truncated or damaged: the file at byte 0 has 8 bytes, more than are left");
  CHECK(shard.error(one.substr(0, 511)) == "is not a tar file");
  // What stands behind a block of zeros is not a file.
  CHECK(shard.read(one + std::string(512, '\0') + one).size() == 1);
}

TEST_CASE("tar headers: another checksum is an error") {
  Shard shard;
  std::string two = make_tar({{"a.ppm", "a"}, {"b.ppm", "b"}});
  two[1024] = 'c';
  CHECK(shard.error(two) == "is damaged: the header at byte 1024 has another checksum");
  two[0] = 'c';
  CHECK(shard.error(two) == "is not a tar file; compressed archives have to be unpacked first");
}

TEST_CASE("tar headers: names of ustar, GNU tar and pax are read") {
  Shard shard;
  const auto name_of = [&](const std::vector<Entry>& entries) {
    const auto samples = shard.read(entries);
    REQUIRE(samples.size() == 1);
    return samples[0].name;
  };
  CHECK(name_of({{"a/b.ppm", "1"}}) == "a/b.ppm");
  CHECK(name_of({{"b.ppm", "1", '0', "", "long/path"}}) == "long/path/b.ppm");
  CHECK(name_of({{"b.ppm", "1", '0', "", "long/path", "ustar  "}}) == "b.ppm");  // GNU's: no prefix
  CHECK(name_of({{"b.ppm", "1", '0', "", "long/path", "      "}}) == "b.ppm");
  CHECK(name_of({{std::string(96, 'x') + ".ppm", "1"}}).size() == 100);
  CHECK(name_of({{"", std::string("folder/c.ppm\0", 13), 'L'}, {"b.ppm", "1"}}) == "folder/c.ppm");
  CHECK(name_of({{"", pax("path=d.ppm"), 'x'}, {"b.ppm", "1"}}) == "d.ppm");
  CHECK(name_of({{"", pax("mtime=1") + pax("path=d.ppm") + pax("uid=7"), 'x'}, {"b.ppm", "1"}}) ==
        "d.ppm");
  CHECK(name_of({{"", pax("path=d.ppm"), 'g'}, {"b.ppm", "1"}}) == "b.ppm");
  CHECK(shard.read({{"", pax("size=8"), 'x'}, {"b.ppm", "12345678", '0', "00000000000"}})
            .at(0)
            .bytes == 8);
  // Both are of the next file alone.
  const auto samples = shard.read({{"", pax("path=d.ppm"), 'x'}, {"b.ppm", "1"}, {"c.ppm", "1"}});
  REQUIRE(samples.size() == 2);
  CHECK(samples[1].name == "c.ppm");
  for (const std::string wrong : {"11 path=d.ppm\n", "15 path=d.ppm\n", "14path=d.ppm\n",
                                  "14 path=d.ppmx", "x path=d.ppm\n", "2 \n"}) {
    CAPTURE(wrong);
    CHECK(shard.error({{"", wrong, 'x'}, {"b.ppm", "1"}}) ==
          "is damaged: a pax header cannot be read");
  }
  for (const char* size : {"size=-1", "size=x"}) {
    CHECK(shard.error({{"", pax(size), 'x'}, {"b.ppm", "1"}}) ==
          "is damaged: a pax size cannot be read");
  }
}

TEST_CASE("tar shards: the headers decide which files are samples, and where their classes are") {
  Shard shard;
  const auto samples = shard.read({{"d/.ppm", "1"},        // no name before the dot
                                   {"d/a", "1"},           // no ending
                                   {"d.ppm/", "", '5'},    // a folder
                                   {"link.ppm", "", '2'},  // a link
                                   {"d.x/a.seg.PNG", "1", '\0'},
                                   {"d.x/a.cls", " 7\r\n"},
                                   {"d.x/a.txt", "8"},
                                   {"b.json", "{\"cls\": 3}"},
                                   {"b.jpeg", "1", '7'},
                                   {"c.tiff", "1"},
                                   {"c.json", "{\"label\": \"dog\", \"cls\": 3}"},
                                   {"e.gif", "1"},
                                   {"e.json", "{\"label\": 1.5}"},
                                   {"f.cls", "1"}});
  REQUIRE(samples.size() == 4);
  CHECK(samples[0].name == "d.x/a.seg.PNG");
  CHECK(samples[0].label == "7");
  CHECK(samples[1].name == "b.jpeg");
  CHECK(samples[1].label == "3");
  CHECK(samples[2].label == "dog");
  CHECK(samples[3].name == "e.gif");
  CHECK(samples[3].label == "");
  CHECK(shard.error({{"a.ppm", "1"}, {"a.png", "1"}}) == "a.png: is the second image of its name");
  CHECK(shard.error({{"a.ppm", "1"}, {"a.json", "{"}}) == "a.json: is not JSON");
  CHECK(shard.error({{"a.jpg", "a"}, {"a.cls", std::string(2 << 20, '1')}})
            .find("too many for a text") != std::string::npos);
}

}  // namespace trainer::data
