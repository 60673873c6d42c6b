#include <cstring>
#include <fstream>
#include <span>

#include "base/error.h"
#include "base/files/files.h"
#include "data/images/listing/shards.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::uint8_t>;

constexpr std::uint64_t kMaxRecordBytes = 1 << 30;  // bytes

std::uint32_t u32(const std::uint8_t* p) {
  return std::uint32_t{p[0]} | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 |
         std::uint32_t{p[3]} << 24;
}

// Returns a checksum as TFRecord stores it: masked, because data may contain checksums, too.
std::uint32_t masked(std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

struct DamagedExample {};

// Reads the fields of a protocol buffer, one after the other.
class Fields {
 public:
  explicit Fields(Bytes bytes) : bytes_(bytes) {}
  bool done() const { return at_ == bytes_.size(); }

  struct Field {
    std::uint32_t number = 0, type = 0;
    std::uint64_t value = 0;  // of a varint
    Bytes content;            // of a field with a length, or of fixed size
  };
  Field next() {
    Field field;
    const std::uint64_t key = varint();
    field.number = static_cast<std::uint32_t>(key >> 3);
    field.type = static_cast<std::uint32_t>(key & 7);
    switch (field.type) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.content = take(8);
        break;
      case 2:
        field.content = take(varint());
        break;
      case 5:
        field.content = take(4);
        break;
      default:
        throw DamagedExample();
    }
    return field;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = take(1)[0];
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    throw DamagedExample();
  }

 private:
  Bytes take(std::uint64_t count) {
    if (count > bytes_.size() - at_) throw DamagedExample();
    const Bytes taken = bytes_.subspan(at_, count);
    at_ += taken.size();
    return taken;
  }
  Bytes bytes_;
  std::size_t at_ = 0;
};

// The first value of a tf.train.Feature: bytes, or an integer as text.
struct Value {
  Bytes bytes;
  std::string number;
};
Value read_value(Bytes feature) {
  Value value;
  Fields lists(feature);
  while (!lists.done()) {
    const auto list = lists.next();
    if (list.type != 2) throw DamagedExample();
    Fields values(list.content);
    if (values.done()) continue;
    const auto first = values.next();
    if (list.number == 1 && first.number == 1 && first.type == 2) value.bytes = first.content;
    if (list.number != 3 || first.number != 1) continue;
    // Packed or not.
    std::uint64_t number = first.value;
    if (first.type == 2) {
      if (first.content.empty()) continue;
      number = Fields(first.content).varint();
    }
    value.number = std::to_string(static_cast<std::int64_t>(number));
  }
  return value;
}

// Returns the index of the usual name that a feature has, -1 for none; the first is preferred.
int place_in(std::span<const char* const> names, Bytes key) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::strlen(names[i]) == key.size() && std::memcmp(names[i], key.data(), key.size()) == 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}
constexpr const char* kImages[] = {"image/encoded", "image", "image_raw", "encoded"};
constexpr const char* kLabels[] = {"image/class/label", "label", "class", "image/class/text"};

struct Found {
  Bytes image;
  std::string label;
  int image_place = 4, label_place = 4;
};

// Reads an entry of the map of features.
void read_entry(Bytes entry, Found& found) {
  Bytes key, feature;
  Fields fields(entry);
  while (!fields.done()) {
    const auto field = fields.next();
    if (field.type != 2) throw DamagedExample();
    if (field.number == 1) key = field.content;
    if (field.number == 2) feature = field.content;
  }
  const int image = place_in(kImages, key), label = place_in(kLabels, key);
  if (image >= 0 && image < found.image_place) {
    found.image = read_value(feature).bytes;
    found.image_place = image;
  }
  if (label >= 0 && label < found.label_place) {
    const Value value = read_value(feature);
    found.label =
        value.number.empty() ? std::string(value.bytes.begin(), value.bytes.end()) : value.number;
    found.label_place = label;
  }
}

Found read_example(Bytes record) {
  Found found;
  Fields example(record);
  while (!example.done()) {
    const auto features = example.next();
    if (features.number != 1) continue;
    if (features.type != 2) throw DamagedExample();
    Fields entries(features.content);
    while (!entries.done()) {
      const auto entry = entries.next();
      if (entry.number == 1 && entry.type == 2) read_entry(entry.content, found);
    }
  }
  return found;
}

}  // namespace

std::vector<ShardSample> read_tfrecord(const fs::path& path) {
  constexpr std::uint64_t kHeader = 12, kTrailer = 4;
  const std::uint64_t size = fs::file_size(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw DataError(path.string(), "cannot be opened");
  std::vector<ShardSample> samples;
  std::vector<std::uint8_t> record;
  for (std::uint64_t at = 0; at < size;) {
    const auto fail = [&](const std::string& what) {
      throw DataError(path.string(), "record ", samples.size(), ", at byte ", at, ": ", what);
    };
    std::uint8_t header[kHeader] = {};
    if (size - at < kHeader + kTrailer ||
        !in.read(reinterpret_cast<char*>(header), sizeof header)) {
      fail("the file ends within it");
    }
    if (masked(crc32c({header, 8})) != u32(header + 8)) {
      fail(at == 0
               ? "its length has another checksum; this is not a TFRecord file, or a compressed one"
               : "its length has another checksum; the file is damaged");
    }
    const std::uint64_t length = std::uint64_t{u32(header)} | std::uint64_t{u32(header + 4)} << 32;
    if (length > kMaxRecordBytes || length > size - at - kHeader - kTrailer) {
      fail(concat("has ", length, " bytes, more than are left in the file"));
    }
    record.resize(static_cast<std::size_t>(length) + kTrailer);
    if (!in.read(reinterpret_cast<char*>(record.data()),
                 static_cast<std::streamsize>(record.size()))) {
      fail("cannot be read");
    }
    const Bytes data = Bytes(record).first(length);
    if (masked(crc32c(data)) != u32(record.data() + length)) {
      fail("has another checksum; the file is damaged");
    }
    Found found;
    try {
      found = read_example(data);
    } catch (const DamagedExample&) {
      fail("is not a tf.train.Example");
    }
    if (found.image.empty()) {
      fail("has no encoded image; features image/encoded, image, image_raw and encoded are read");
    }
    const auto first = static_cast<std::uint64_t>(found.image.data() - data.data());
    samples.push_back({concat("record ", samples.size()), found.label,
                       static_cast<std::int64_t>(at + kHeader + first), std::ssize(found.image)});
    at += kHeader + length + kTrailer;
  }
  return samples;
}

}  // namespace trainer::data
