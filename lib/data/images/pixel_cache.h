// Caches decoded images in memory or in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/files/files.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// A cache of decoded images. Thread-safe.
class PixelCache {
 public:
  virtual ~PixelCache() = default;
  // Returns false if the image is not in the cache.
  virtual bool load(std::int64_t index, Pixels& out) = 0;
  virtual void store(std::int64_t index, const Pixels& image) = 0;
};
// Caches images of varying size in memory.
std::unique_ptr<PixelCache> make_memory_cache(std::int64_t count);
// Caches images of `image_bytes` bytes in one file of `folder`, named by the key. load() gives them
// as one row of one channel. An entry counts as missing if its checksum, which is verified at each
// read, differs.
std::unique_ptr<PixelCache> make_disk_cache(const Path& folder, const std::string& key,
                                            std::int64_t count, std::size_t image_bytes);

}  // namespace trainer::data
