#include "hooks/event_file.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace trainer::hooks {
namespace {

static_assert(std::endian::native == std::endian::little, "event files are little-endian");

// ---- Protocol buffers' wire format: field number and type, then the value ----

void varint(std::string& out, std::uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

template <class Number>
std::string raw(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

void integer_field(std::string& out, int field, std::int64_t value) {
  varint(out, static_cast<std::uint64_t>(field) << 3);
  varint(out, static_cast<std::uint64_t>(value));
}
void double_field(std::string& out, int field, double value) {
  varint(out, static_cast<std::uint64_t>(field) << 3 | 1);
  out += raw(value);
}
void float_field(std::string& out, int field, float value) {
  varint(out, static_cast<std::uint64_t>(field) << 3 | 5);
  out += raw(value);
}
void bytes_field(std::string& out, int field, const std::string& value) {
  varint(out, static_cast<std::uint64_t>(field) << 3 | 2);
  varint(out, value.size());
  out += value;
}

// Event: wall_time 1, step 2, file_version 3, summary 5. Summary: value 1.
std::string event_with(std::int64_t step, double now, const std::string& summary_value) {
  std::string summary;
  bytes_field(summary, 1, summary_value);
  std::string event;
  double_field(event, 1, now);
  integer_field(event, 2, step);
  bytes_field(event, 5, summary);
  return event;
}

// The mask keeps CRCs of data that holds CRCs apart.
std::uint32_t masked_crc(const std::string& data) {
  const std::uint32_t crc =
      crc32c({reinterpret_cast<const std::uint8_t*>(data.data()), data.size()});
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace

EventFile::EventFile(const Path& path, double now) : path_(path), file_(path, std::ios::binary) {
  std::string event;
  double_field(event, 1, now);
  bytes_field(event, 3, "brain.Event:2");
  record(event);
}

// Event: session_log 7. SessionLog: status 1, of which 1 is START.
void EventFile::session_start(std::int64_t step, double now) {
  std::string session;
  integer_field(session, 1, 1);
  std::string event;
  double_field(event, 1, now);
  integer_field(event, 2, step);
  bytes_field(event, 7, session);
  record(event);
}

// Summary.Value: tag 1, simple_value 2, image 4.
void EventFile::scalar(const std::string& tag, std::int64_t step, double now, float value) {
  std::string summary_value;
  bytes_field(summary_value, 1, tag);
  float_field(summary_value, 2, value);
  record(event_with(step, now, summary_value));
}

// Summary.Image: height 1, width 2, colorspace 3 (3 is RGB), encoded_image_string 4.
void EventFile::image(const std::string& tag, std::int64_t step, double now, int width, int height,
                      std::span<const std::uint8_t> png) {
  std::string image;
  integer_field(image, 1, height);
  integer_field(image, 2, width);
  integer_field(image, 3, 3);
  bytes_field(image, 4, std::string(reinterpret_cast<const char*>(png.data()), png.size()));
  std::string summary_value;
  bytes_field(summary_value, 1, tag);
  bytes_field(summary_value, 4, image);
  record(event_with(step, now, summary_value));
}

void EventFile::record(const std::string& event) {
  const std::string length = raw(static_cast<std::uint64_t>(event.size()));
  file_ << length << raw(masked_crc(length)) << event << raw(masked_crc(event));
  file_.flush();
  if (!file_) throw DataError(path_.string(), "cannot be written; is the disk full?");
}

}  // namespace trainer::hooks
