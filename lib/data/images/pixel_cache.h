// Decoded images kept in memory or in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/files.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// Keeps decoded images of varying size. Thread-safe.
class PixelCache {
 public:
  virtual ~PixelCache() = default;
  // False when the image is not there yet.
  virtual bool load(std::int64_t index, Pixels& out) = 0;
  virtual void store(std::int64_t index, const Pixels& image) = 0;
};
std::unique_ptr<PixelCache> make_memory_cache(std::int64_t count);
// Images of `image_bytes` bytes in one file of `folder`, named by the key. An entry that does not
// pass its checksum, which is verified at each read, counts as missing.
std::unique_ptr<PixelCache> make_disk_cache(const Path& folder, const std::string& key,
                                            std::int64_t count, std::size_t image_bytes);

}  // namespace trainer::data
