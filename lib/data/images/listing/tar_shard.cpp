#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "config/values.h"
#include "data/images/listing/shards.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;
constexpr std::int64_t kMaxTextBytes = 1 << 20;  // bytes of a label, a name or a pax header

struct Member {
  std::string name;
  char type = '0';
  std::int64_t offset = 0, bytes = 0;
};

// Parses octal digits, or GNU's binary form with the upper bit set. Returns -1 for other fields.
std::int64_t parse_number(const char* field, std::size_t length) {
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    std::uint64_t value = static_cast<unsigned char>(field[0]) & 0x7Fu;
    for (std::size_t i = 1; i < length; ++i) {
      if (value >> 55 != 0) return -1;
      value = value << 8 | static_cast<unsigned char>(field[i]);
    }
    return static_cast<std::int64_t>(value);
  }
  std::size_t i = 0;
  while (i < length && field[i] == ' ') ++i;
  std::int64_t value = 0;
  bool any = false;
  for (; i < length && field[i] >= '0' && field[i] <= '7'; ++i) {
    value = value << 3 | (field[i] - '0');
    any = true;
  }
  return any && (i == length || field[i] == ' ' || field[i] == '\0') ? value : -1;
}

std::string read_field(const char* field, std::size_t length) {
  return {field, strnlen(field, length)};
}

class TarReader {
 public:
  explicit TarReader(const fs::path& path)
      : path_(path.string()), size_(static_cast<std::int64_t>(fs::file_size(path))) {
    in_.open(path, std::ios::binary);
    if (!in_) throw DataError(path_, "cannot be opened");
  }

  // The next file; false at the end.
  bool next(Member& member) {
    std::string long_name;
    std::int64_t long_size = -1;
    std::array<char, kBlock> block;
    for (;;) {
      if (at_ + static_cast<std::int64_t>(kBlock) > size_) {
        if (at_ == 0) fail("is not a tar file");
        return false;  // some writers leave out the blocks of zeros at the end
      }
      read(at_, block.data(), kBlock);
      if (std::ranges::all_of(block, [](char c) { return c == 0; })) return false;
      check_sum(block);
      member.type = block[156];
      member.bytes = parse_number(block.data() + 124, 12);
      if (long_size >= 0 && member.type != 'x' && member.type != 'L') member.bytes = long_size;
      member.offset = at_ + static_cast<std::int64_t>(kBlock);
      if (member.bytes < 0 || member.bytes > size_ - member.offset) {
        fail(concat("is truncated or damaged: the file at byte ", at_, " has ", member.bytes,
                    " bytes, more than are left"));
      }
      constexpr std::int64_t kOf = kBlock;
      at_ = member.offset + (member.bytes + kOf - 1) / kOf * kOf;
      if (member.type == 'L') {
        long_name = text(member);
        long_name.resize(strnlen(long_name.data(), long_name.size()));
      } else if (member.type == 'x') {
        read_pax(text(member), long_name, long_size);
      } else if (member.type != 'g') {
        const std::string prefix = std::memcmp(block.data() + 257, "ustar", 6) == 0
                                       ? read_field(block.data() + 345, 155)
                                       : "";
        member.name = read_field(block.data(), 100);
        if (!prefix.empty()) member.name = prefix + '/' + member.name;
        if (!long_name.empty()) member.name = long_name;
        return true;
      }
    }
  }

  std::string text(const Member& member) {
    if (member.bytes > kMaxTextBytes) {
      fail(concat(member.name, ": has ", member.bytes, " bytes, too many for a text"));
    }
    std::string result(member.bytes, '\0');
    read(member.offset, result.data(), result.size());
    return result;
  }

  [[noreturn]] void fail(const std::string& message) const { throw DataError(path_, message); }

 private:
  void read(std::int64_t at, char* to, std::size_t count) {
    in_.seekg(at);
    if (!in_.read(to, static_cast<std::streamsize>(count))) fail("cannot be read");
  }

  void check_sum(const std::array<char, kBlock>& block) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(block[i]);
    }
    if (sum == parse_number(block.data() + 148, 8)) return;
    fail(at_ == 0 ? "is not a tar file; compressed archives have to be unpacked first"
                  : concat("is damaged: the header at byte ", at_, " has another checksum"));
  }

  // Reads records "LENGTH key=value\n".
  void read_pax(const std::string& records, std::string& name, std::int64_t& bytes) const {
    for (std::size_t at = 0; at < records.size();) {
      std::size_t length = 0;
      const char* begin = records.data() + at;
      const auto [end, error] = std::from_chars(begin, records.data() + records.size(), length);
      const std::size_t digits = end - begin;
      if (error != std::errc() || length <= digits + 1 || length > records.size() - at ||
          *end != ' ' || begin[length - 1] != '\n') {
        fail("is damaged: a pax header cannot be read");
      }
      const std::string record(begin + digits + 1, length - digits - 2);
      if (record.starts_with("path=")) name = record.substr(5);
      if (record.starts_with("size=")) {
        const char* value = record.data() + 5;
        const auto parsed = std::from_chars(value, record.data() + record.size(), bytes);
        if (parsed.ec != std::errc() || bytes < 0) fail("is damaged: a pax size cannot be read");
      }
      at += length;
    }
  }

  std::string path_;
  std::int64_t size_, at_ = 0;
  std::ifstream in_;
};

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_image_ending(const std::string& ending) {
  constexpr std::array<const char*, 10> kEndings = {"jpg", "jpeg", "png",  "webp", "bmp",
                                                    "gif", "tif",  "tiff", "ppm",  "pgm"};
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::string json_label(const std::string& text, const TarReader& tar, const std::string& name) {
  const nlohmann::json content = nlohmann::json::parse(text, nullptr, false);
  for (const char* key : {"label", "cls"}) {
    if (!content.is_object() || !content.contains(key)) continue;
    const nlohmann::json& value = content[key];
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_integer()) return std::to_string(value.get<std::int64_t>());
  }
  if (content.is_discarded()) tar.fail(concat(name, ": is not JSON"));
  return "";
}

struct PlacedMember {
  Member member;
  std::size_t place = 0;  // among all members
};

// The members that make samples.
struct Members {
  std::vector<PlacedMember> images;
  std::map<std::string, std::vector<PlacedMember>> texts;  // by the name without the last ending
};

Members list_members(TarReader& tar) {
  Members members;
  Member member;
  for (std::size_t place = 0; tar.next(member); ++place) {
    if (member.type != '0' && member.type != '\0' && member.type != '7') continue;
    const std::size_t slash = member.name.rfind('/') + 1;  // 0 without one
    const std::size_t dot = member.name.rfind('.');
    if (dot == std::string::npos || dot < slash || member.name[slash] == '.') continue;
    const std::string ending = to_lower(member.name.substr(dot + 1));
    if (is_image_ending(ending)) members.images.push_back({member, place});
    if (ending == "cls" || ending == "json") {
      members.texts[member.name.substr(0, dot)].push_back({member, place});
    }
  }
  return members;
}

// Returns the last label that these files of one sample contain; "" if none does.
std::string read_label(TarReader& tar, const std::vector<PlacedMember>& texts) {
  std::string label;
  for (const auto& [member, place] : texts) {
    const std::string content = tar.text(member);
    const bool is_json = to_lower(member.name).ends_with(".json");
    const std::string text = is_json ? json_label(content, tar, member.name) : trimmed(content);
    if (!text.empty()) label = text;
  }
  return label;
}

void refuse_parquet(const fs::path& path) {
  if (path.extension() == ".parquet") {
    throw DataError(path.string(), config::hint_for_format("parquet"));
  }
}

}  // namespace

std::vector<ShardSample> read_tar_shard(const fs::path& path) {
  TarReader tar(path);
  const Members members = list_members(tar);
  std::map<std::string, std::size_t> samples;  // the image of each key
  std::map<std::size_t, ShardSample> by_place;
  for (const PlacedMember& image : members.images) {
    const std::string& name = image.member.name;
    std::string key = name.substr(0, name.rfind('.'));
    auto texts = members.texts.find(key);
    if (texts == members.texts.end()) {
      key = name.substr(0, name.find('.', name.rfind('/') + 1));
      texts = members.texts.find(key);
    }
    if (!samples.emplace(key, image.place).second) {
      tar.fail(concat(name, ": is the second image of its name"));
    }
    ShardSample sample{name, "", image.member.offset, image.member.bytes};
    std::size_t place = image.place;
    if (texts != members.texts.end()) {
      sample.label = read_label(tar, texts->second);
      place = std::min(place, texts->second.front().place);
    }
    by_place.emplace(place, std::move(sample));
  }
  std::vector<ShardSample> result;
  for (auto& [place, sample] : by_place) result.push_back(std::move(sample));
  return result;
}

bool is_shard_name(const std::string& name, bool tar) {
  return tar ? name.ends_with(".tar") : name.find("tfrec") != std::string::npos;
}

std::vector<fs::path> shard_files(const fs::path& path, bool tar) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (!fs::exists(path, error)) throw DataError(path.string(), "no such file or folder");
    refuse_parquet(path);
    return {path};
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (is_shard_name(name, tar) && entry.is_regular_file(error)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  if (files.empty()) {
    for (const auto& entry : fs::directory_iterator(path)) refuse_parquet(entry.path());
    throw DataError(path.string(), tar ? "holds no .tar files" : "holds no files named tfrecord");
  }
  return files;
}

}  // namespace trainer::data
