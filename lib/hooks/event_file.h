// TensorBoard's event files, written without TensorFlow.
//
// A file is a sequence of records: u64 length, u32 masked CRC-32C of it, the data, u32 masked
// CRC-32C of the data, little-endian (TFRecord). The data is an Event message of
// tensorflow/core/util/event.proto; the few fields used are encoded by hand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/append_file.h"
#include "base/files.h"

namespace trainer::hooks {

class EventFile {
 public:
  // Creates the file and writes the version event. `now` in seconds since 1970. Every event is
  // flushed. Throws DataError, as all calls do, if the file cannot be written.
  EventFile(const Path& path, double now);

  // Events of `step` and later in files before this one are of a run that was killed: TensorBoard
  // drops them.
  void session_start(std::int64_t step, double now);
  void scalar(const std::string& tag, std::int64_t step, double now, float value);
  // Markdown.
  void text(const std::string& tag, std::int64_t step, double now, const std::string& text);
  // A session of TensorBoard's HPARAMS: what its run was given, and that it has ended.
  using HyperParameters = std::vector<std::pair<std::string, std::string>>;
  void session(const HyperParameters& parameters, double now);
  void session_end(bool success, double now);
  void image(const std::string& tag, std::int64_t step, double now,
             std::span<const std::uint8_t> png);
  const Path& path() const { return file_.path(); }
  // Whether the path still names this file.
  bool is_in_place() const { return file_.is_in_place(); }
  // Waits until the disk has all events.
  void sync() { file_.sync(); }

 private:
  void plugin_session(const std::string& tag, int field, const std::string& content, double now);
  void record(const std::string& event);

  AppendFile file_;
};

}  // namespace trainer::hooks
