// Decoded images kept in memory or in a mapped file.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "data/image.h"

namespace trainer::data {
namespace {

class MemoryCache final : public PixelCache {
 public:
  explicit MemoryCache(std::int64_t count) : entries_(static_cast<std::size_t>(count)) {}

  bool load(std::int64_t index, Pixels& out) override {
    const Entry& entry = entries_[static_cast<std::size_t>(index)];
    if (!entry.ready.load(std::memory_order_acquire)) return false;
    const Pixels& image = entry.image;
    out.reset(image.height(), image.width(), image.channels());
    std::memcpy(out.data(), image.data(), image.size());
    return true;
  }
  void store(std::int64_t index, const Pixels& image) override {
    Entry& entry = entries_[static_cast<std::size_t>(index)];
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

// The file holds all checksums, then all images; their size is known to the reader.
class DiskCache final : public PixelCache {
 public:
  DiskCache(const Path& folder, const std::string& key, std::int64_t count, std::size_t image_bytes)
      : path_(folder / ("images-" + key + ".bin")),
        image_bytes_(image_bytes),
        count_(static_cast<std::size_t>(count)),
        bytes_(count_ * (sizeof(std::uint64_t) + image_bytes)),
        verified_(count_) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw DataError(folder.string(), "cannot be created: " + error.message());
    const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) fail();
    struct stat status {};
    // A sparse file of full size: the space is taken as images arrive.
    const bool sized = ::fstat(file, &status) == 0 && enough_space(status.st_blocks * 512) &&
                       ::ftruncate(file, static_cast<off_t>(bytes_)) == 0;
    if (sized) memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (!sized || memory_ == MAP_FAILED) fail();
  }
  ~DiskCache() override { ::munmap(memory_, bytes_); }
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  bool load(std::int64_t index, Pixels& out) override {
    const auto i = static_cast<std::size_t>(index);
    if (!verified_[i].load(std::memory_order_acquire)) {
      const std::lock_guard lock(lock_of(i));
      if (marks()[i] == 0 || marks()[i] != mark_of({image(i), image_bytes_})) return false;
      verified_[i].store(true, std::memory_order_release);
    }
    out.reset(1, static_cast<int>(image_bytes_), 1);
    std::memcpy(out.data(), image(i), image_bytes_);
    return true;
  }
  // Two batches at the border of two epochs may hold the same image: the first to come writes it.
  void store(std::int64_t index, const Pixels& from) override {
    const auto i = static_cast<std::size_t>(index);
    const std::lock_guard lock(lock_of(i));
    if (verified_[i].load(std::memory_order_relaxed)) return;
    std::memcpy(image(i), from.data(), image_bytes_);
    marks()[i] = mark_of({from.data(), image_bytes_});
    verified_[i].store(true, std::memory_order_release);
  }

 private:
  std::mutex& lock_of(std::size_t i) { return locks_[i % locks_.size()]; }
  // Never 0, which marks an image that is not there.
  static std::uint64_t mark_of(std::span<const std::uint8_t> bytes) {
    return std::uint64_t{crc32c(bytes)} | std::uint64_t{1} << 32;
  }
  std::uint64_t* marks() { return static_cast<std::uint64_t*>(memory_); }
  std::uint8_t* image(std::size_t i) {
    return static_cast<std::uint8_t*>(memory_) + count_ * sizeof(std::uint64_t) + i * image_bytes_;
  }
  // Writing to a mapped file on a full disk ends the process: better to refuse beforehand.
  bool enough_space(std::int64_t taken) const {
    std::error_code error;
    const auto space = std::filesystem::space(path_.parent_path(), error);
    if (error || space.available + static_cast<std::uintmax_t>(taken) >= bytes_) return true;
    errno = ENOSPC;
    return false;
  }
  [[noreturn]] void fail() const {
    throw DataError(path_.string(),
                    concat(std::strerror(errno), " (the image cache needs ", bytes_ >> 20,
                           " MiB; use another data.cache_dir or cache: none)"));
  }

  Path path_;
  std::size_t image_bytes_, count_, bytes_;
  void* memory_ = nullptr;
  std::vector<std::atomic<bool>> verified_;  // what this process has written or checked
  std::array<std::mutex, 64> locks_;         // guard what is not verified yet
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
