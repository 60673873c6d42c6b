#include "hooks/formats/event_file.h"

#include "base/error.h"
#include "base/text.h"

namespace trainer::hooks {
namespace {

// Event: wall_time 1, step 2, file_version 3, summary 5. Summary: value 1.
ProtoMessage make_event(std::int64_t step, double now, const ProtoMessage& summary_value) {
  return ProtoMessage().real(1, now).number(2, step).message(
      5, ProtoMessage().message(1, summary_value));
}

// TFRecord masks CRCs, because the CRC of data that contains its own CRC is constant.
std::uint32_t masked_crc(const std::string& data) {
  const std::uint32_t crc =
      crc32c({reinterpret_cast<const std::uint8_t*>(data.data()), data.size()});
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

// SummaryMetadata: plugin_data 1, data_class 4 (2 is TENSOR). PluginData: plugin_name 1, content 2.
ProtoMessage make_plugin_metadata(const std::string& plugin, const ProtoMessage& content) {
  return ProtoMessage().message(1, ProtoMessage().text(1, plugin).message(2, content)).number(4, 2);
}

// google.protobuf.Value: number_value 2, string_value 3, bool_value 4.
ProtoMessage to_value(const std::string& text) {
  if (text == "true" || text == "false") return ProtoMessage().number(4, text == "true" ? 1 : 0);
  if (const auto number = parse_real(text)) return ProtoMessage().real(2, *number);
  return ProtoMessage().text(3, text);
}

}  // namespace

EventFile::EventFile(const Path& path, double now) : file_(path) {
  record(ProtoMessage().real(1, now).text(3, "brain.Event:2"));
}

// Event: session_log 7. SessionLog: status 1, of which 1 is START.
void EventFile::session_start(std::int64_t step, double now) {
  const ProtoMessage session = ProtoMessage().number(1, 1);
  record(ProtoMessage().real(1, now).number(2, step).message(7, session));
}

// Summary.Value: tag 1, simple_value 2, image 4.
void EventFile::scalar(const std::string& tag, std::int64_t step, double now, float value) {
  record(make_event(step, now, ProtoMessage().text(1, tag).real(2, value)));
}

// Summary.Image: height 1, width 2, colorspace 3 (3 is RGB), encoded_image_string 4.
void EventFile::image(const std::string& tag, std::int64_t step, double now,
                      std::span<const std::uint8_t> png) {
  // The header of a PNG begins with the width and height, the most significant byte first.
  const auto number_at = [&](std::size_t at) {
    return std::int64_t{png[at]} << 24 | png[at + 1] << 16 | png[at + 2] << 8 | png[at + 3];
  };
  const ProtoMessage image = ProtoMessage()
                                 .number(1, number_at(20))
                                 .number(2, number_at(16))
                                 .number(3, 3)
                                 .text(4, {reinterpret_cast<const char*>(png.data()), png.size()});
  record(make_event(step, now, ProtoMessage().text(1, tag).message(4, image)));
}

// TensorProto: dtype 1 (7 is STRING), tensor_shape 2, string_val 8. Summary.Value: tensor 8,
// metadata 9.
void EventFile::text(const std::string& tag, std::int64_t step, double now,
                     const std::string& text) {
  const ProtoMessage tensor = ProtoMessage().number(1, 7).text(2, "").text(8, text);
  record(make_event(
      step, now,
      ProtoMessage().text(1, tag).message(8, tensor).message(9, make_plugin_metadata("text", {}))));
}

// HParamsPluginData: session_start_info 3, session_end_info 4. Without a tensor, TensorBoard would
// read the value as an older kind; the tensor's content is ignored.
void EventFile::plugin_session(const std::string& tag, int field, const ProtoMessage& content,
                               double now) {
  const ProtoMessage tensor = ProtoMessage().number(1, 1).text(2, "").real(5, 0.0f);
  const ProtoMessage metadata =
      make_plugin_metadata("hparams", ProtoMessage().message(field, content));
  record(make_event(0, now, ProtoMessage().text(1, tag).message(8, tensor).message(9, metadata)));
}

// SessionStartInfo: hparams 1, a map, start_time_secs 5.
void EventFile::session(const HyperParameters& parameters, double now) {
  ProtoMessage info;
  for (const auto& [name, text] : parameters) {
    info.message(1, ProtoMessage().text(1, name).message(2, to_value(text)));
  }
  info.real(5, now);
  plugin_session("_hparams_/session_start_info", 3, info, now);
}

// SessionEndInfo: status 1 (1 is SUCCESS, 2 FAILURE), end_time_secs 2.
void EventFile::session_end(bool success, double now) {
  const ProtoMessage info = ProtoMessage().number(1, success ? 1 : 2).real(2, now);
  plugin_session("_hparams_/session_end_info", 4, info, now);
}

void EventFile::record(const ProtoMessage& message) {
  const std::string& event = message.bytes();
  const std::string length = raw_bytes(static_cast<std::uint64_t>(event.size()));
  file_.append(length + raw_bytes(masked_crc(length)) + event + raw_bytes(masked_crc(event)));
  file_.flush();
}

}  // namespace trainer::hooks
