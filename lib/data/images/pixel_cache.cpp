#include "data/images/pixel_cache.h"

#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "data/samples/records.h"

namespace trainer::data {
namespace {

class MemoryCache final : public PixelCache {
 public:
  explicit MemoryCache(std::int64_t count) : entries_(count) {}

  bool load(std::int64_t index, Pixels& out) override {
    const Entry& entry = entries_[index];
    if (!entry.ready.load(std::memory_order_acquire)) return false;
    const Pixels& image = entry.image;
    out.reset(image.height(), image.width(), image.channels());
    std::memcpy(out.data(), image.data(), image.size());
    return true;
  }
  void store(std::int64_t index, const Pixels& image) override {
    Entry& entry = entries_[index];
    const std::lock_guard lock(locks_[static_cast<std::size_t>(index) % locks_.size()]);
    if (entry.ready.load(std::memory_order_relaxed)) return;
    entry.image.reset(image.height(), image.width(), image.channels());
    std::memcpy(entry.image.data(), image.data(), image.size());
    entry.ready.store(true, std::memory_order_release);
  }

 private:
  struct Entry {
    std::atomic<bool> ready{false};
    Pixels image;
  };
  std::vector<Entry> entries_;
  std::array<std::mutex, 64> locks_;
};

class DiskCache final : public PixelCache {
 public:
  DiskCache(const Path& folder, const std::string& key, std::int64_t count, std::size_t image_bytes)
      : records_(folder / ("images-" + key + ".bin"), count, image_bytes,
                 "use another data.cache_dir or cache: none") {}

  bool load(std::int64_t index, Pixels& out) override {
    out.reset(1, static_cast<int>(records_.record_bytes()), 1);
    return records_.load(index, out.data());
  }
  void store(std::int64_t index, const Pixels& image) override {
    records_.store(index, image.data());
  }

 private:
  Records records_;
};

}  // namespace

std::unique_ptr<PixelCache> make_memory_cache(std::int64_t count) {
  return std::make_unique<MemoryCache>(count);
}
std::unique_ptr<PixelCache> make_disk_cache(const Path& folder, const std::string& key,
                                            std::int64_t count, std::size_t image_bytes) {
  return std::make_unique<DiskCache>(folder, key, count, image_bytes);
}

}  // namespace trainer::data
