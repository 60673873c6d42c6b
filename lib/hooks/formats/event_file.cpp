#include "hooks/formats/event_file.h"

#include <bit>
#include <charconv>
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

// TFRecord masks CRCs, because the CRC of data that contains its own CRC is constant.
std::uint32_t masked_crc(const std::string& data) {
  const std::uint32_t crc =
      crc32c({reinterpret_cast<const std::uint8_t*>(data.data()), data.size()});
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace

EventFile::EventFile(const Path& path, double now) : file_(path) {
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
void EventFile::image(const std::string& tag, std::int64_t step, double now,
                      std::span<const std::uint8_t> png) {
  // The header of a PNG begins with the width and height, the most significant byte first.
  const auto number_at = [&](std::size_t at) {
    return std::int64_t{png[at]} << 24 | png[at + 1] << 16 | png[at + 2] << 8 | png[at + 3];
  };
  std::string image;
  integer_field(image, 1, number_at(20));
  integer_field(image, 2, number_at(16));
  integer_field(image, 3, 3);
  bytes_field(image, 4, std::string(reinterpret_cast<const char*>(png.data()), png.size()));
  std::string summary_value;
  bytes_field(summary_value, 1, tag);
  bytes_field(summary_value, 4, image);
  record(event_with(step, now, summary_value));
}

namespace {

// SummaryMetadata: plugin_data 1, data_class 4 (2 is TENSOR). PluginData: plugin_name 1, content 2.
std::string plugin_metadata(const std::string& plugin, const std::string& content) {
  std::string data;
  bytes_field(data, 1, plugin);
  bytes_field(data, 2, content);
  std::string metadata;
  bytes_field(metadata, 1, data);
  integer_field(metadata, 4, 2);
  return metadata;
}

// google.protobuf.Value: number_value 2, string_value 3, bool_value 4.
std::string to_value(const std::string& text) {
  std::string value;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text == "true" || text == "false") {
    integer_field(value, 4, text == "true" ? 1 : 0);
  } else if (error == std::errc() && end == text.data() + text.size()) {
    double_field(value, 2, number);
  } else {
    bytes_field(value, 3, text);
  }
  return value;
}

}  // namespace

// TensorProto: dtype 1 (7 is STRING), tensor_shape 2, string_val 8. Summary.Value: tensor 8,
// metadata 9.
void EventFile::text(const std::string& tag, std::int64_t step, double now,
                     const std::string& text) {
  std::string tensor;
  integer_field(tensor, 1, 7);
  bytes_field(tensor, 2, "");
  bytes_field(tensor, 8, text);
  std::string summary_value;
  bytes_field(summary_value, 1, tag);
  bytes_field(summary_value, 8, tensor);
  bytes_field(summary_value, 9, plugin_metadata("text", ""));
  record(event_with(step, now, summary_value));
}

// HParamsPluginData: session_start_info 3, session_end_info 4. Without a tensor, TensorBoard would
// read the value as an older kind; the tensor's content is ignored.
void EventFile::plugin_session(const std::string& tag, int field, const std::string& content,
                               double now) {
  std::string data, tensor, summary_value;
  bytes_field(data, field, content);
  integer_field(tensor, 1, 1);
  bytes_field(tensor, 2, "");
  float_field(tensor, 5, 0);
  bytes_field(summary_value, 1, tag);
  bytes_field(summary_value, 8, tensor);
  bytes_field(summary_value, 9, plugin_metadata("hparams", data));
  record(event_with(0, now, summary_value));
}

// SessionStartInfo: hparams 1, a map, start_time_secs 5.
void EventFile::session(const HyperParameters& parameters, double now) {
  std::string info;
  for (const auto& [name, text] : parameters) {
    std::string entry;
    bytes_field(entry, 1, name);
    bytes_field(entry, 2, to_value(text));
    bytes_field(info, 1, entry);
  }
  double_field(info, 5, now);
  plugin_session("_hparams_/session_start_info", 3, info, now);
}

// SessionEndInfo: status 1 (1 is SUCCESS, 2 FAILURE), end_time_secs 2.
void EventFile::session_end(bool success, double now) {
  std::string info;
  integer_field(info, 1, success ? 1 : 2);
  double_field(info, 2, now);
  plugin_session("_hparams_/session_end_info", 4, info, now);
}

void EventFile::record(const std::string& event) {
  const std::string length = raw(static_cast<std::uint64_t>(event.size()));
  file_.append(length + raw(masked_crc(length)) + event + raw(masked_crc(event)));
  file_.flush();
}

}  // namespace trainer::hooks
