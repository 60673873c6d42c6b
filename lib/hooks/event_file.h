// TensorBoard's event files, written without TensorFlow.
//
// A file is a sequence of records: u64 length, u32 masked CRC-32C of it, the data, u32 masked
// CRC-32C of the data, little-endian (TFRecord). The data is an Event message of
// tensorflow/core/util/event.proto; the few fields used are encoded by hand.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "base/files.h"

namespace trainer::hooks {

class EventFile {
 public:
  // Creates the file and writes the version event. `now` in seconds since 1970. Every event is
  // flushed. Throws DataError, as all calls do, when the file cannot be written.
  EventFile(const Path& path, double now);

  // Events of `step` and later in files before this one are of a run that was killed: TensorBoard
  // drops them.
  void session_start(std::int64_t step, double now);
  void scalar(const std::string& tag, std::int64_t step, double now, float value);
  void image(const std::string& tag, std::int64_t step, double now, int width, int height,
             std::span<const std::uint8_t> png);

 private:
  void record(const std::string& event);

  Path path_;
  std::ofstream file_;
};

}  // namespace trainer::hooks
