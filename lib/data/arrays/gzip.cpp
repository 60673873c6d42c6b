// Decompresses whole files with libdeflate, which is about twice as fast as the streams of zlib.
#include "data/arrays/gzip.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/system_error.h"
#include "data/arrays/array.h"

namespace trainer::data {
namespace {

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};
using Decompressor = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

struct File {
  explicit File(const Path& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd;
};

Buffer read_raw(const Path& path) {
  const File file(path);
  struct stat info {};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0) {
    throw DataError(path, concat("cannot open: ", describe_system_error(errno)));
  }
  if (S_ISDIR(info.st_mode)) throw DataError(path, "is a folder, expected a file");
  Buffer content(info.st_size);
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.fd, content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw DataError(path, concat("cannot read: ", describe_system_error(errno)));
    if (got == 0) break;
    done += got;
  }
  content.shrink(done);
  return content;
}

// Returns the largest size that a compressed file may expand to; a larger one would waste memory.
std::size_t max_expanded(std::size_t compressed) {
  constexpr std::size_t kMinBytes = 320 << 20, kMaxExpansion = 64;
  return std::max(kMinBytes, compressed * kMaxExpansion);
}

Buffer gunzip(const Buffer& compressed, const Path& path) {
  const std::uint8_t* in = compressed.data();
  std::size_t left = compressed.size();
  // The last four bytes are the size, modulo 2^32, of the last member, which is nearly always the
  // only one. DEFLATE compresses at most 1032 times, which bounds a damaged size.
  std::uint32_t hint = 0;
  if (left >= 18) std::memcpy(&hint, in + left - 4, 4);
  const std::size_t max_bytes = max_expanded(left);
  Buffer out(std::min<std::size_t>({hint, left * 1032 + 64, max_bytes}));
  std::size_t done = 0;
  const Decompressor decompressor(libdeflate_alloc_decompressor());
  while (left > 0) {
    std::size_t used = 0;
    std::size_t made = 0;
    const libdeflate_result result = libdeflate_gzip_decompress_ex(
        decompressor.get(), in, left, out.data() + done, out.size() - done, &used, &made);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE && out.size() >= max_bytes) {
      throw DataError(path, concat("has ", compressed.size(), " bytes, which expand to more than ",
                                   max_bytes, "; expand it with gunzip if that is right"));
    }
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE && out.size() - done < left * 1032 + 64) {
      Buffer larger(std::min({out.size() * 2 + 65536, done + left * 1032 + 64, max_bytes}));
      std::memcpy(larger.data(), out.data(), done);
      out = std::move(larger);
      continue;
    }
    if (result != LIBDEFLATE_SUCCESS) {
      throw DataError(path, "is a damaged or truncated gzip file; fetch it again");
    }
    in += used;
    left -= used;
    done += made;
  }
  out.shrink(done);
  return out;
}

}  // namespace

Buffer read_maybe_gzip(const Path& path) {
  Buffer content = read_raw(path);
  const bool gzip = content.size() >= 2 && content.data()[0] == 0x1f && content.data()[1] == 0x8b;
  return gzip ? gunzip(content, path) : std::move(content);
}

}  // namespace trainer::data
