// TensorBoard's event files, written without TensorFlow.
//
// A file is a sequence of records: u64 length, u32 masked CRC-32C of it, the data, u32 masked
// CRC-32C of the data, little-endian (TFRecord). The data is an Event message of
// tensorflow/core/util/event.proto.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/files/append_file.h"
#include "base/files/files.h"
#include "base/formats/protobuf.h"

namespace trainer::hooks {

class EventFile {
 public:
  // Creates the file and writes the version event. `now` in seconds since 1970. Every event is
  // flushed. Throws DataError, as all calls do, if the file cannot be written.
  EventFile(const Path& path, double now);

  // Makes TensorBoard drop events of `step` and later in earlier files, which a killed run has
  // left.
  void session_start(std::int64_t step, double now);
  void scalar(const std::string& tag, std::int64_t step, double now, float value);
  // Writes a text, in Markdown.
  void text(const std::string& tag, std::int64_t step, double now, const std::string& text);
  // Write the start of a session of TensorBoard's HPARAMS, with the parameters of its run, and its
  // end.
  using HyperParameters = std::vector<std::pair<std::string, std::string>>;
  void session(const HyperParameters& parameters, double now);
  void session_end(bool success, double now);
  void image(const std::string& tag, std::int64_t step, double now,
             std::span<const std::uint8_t> png);
  const Path& path() const { return file_.path(); }
  // Returns whether the path still names this file.
  bool is_in_place() const { return file_.is_in_place(); }
  // Waits until all events are on the disk.
  void sync() { file_.sync(); }

 private:
  void plugin_session(const std::string& tag, int field, const ProtoMessage& content, double now);
  void record(const ProtoMessage& message);

  AppendFile file_;
};

}  // namespace trainer::hooks
