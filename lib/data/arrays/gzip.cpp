// Decompresses whole files with libdeflate, which is about twice as fast as the streams of zlib.
#include "data/arrays/gzip.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/files/files.h"

namespace trainer::data {
namespace {

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};
using Decompressor = std::unique_ptr<libdeflate_decompressor, FreeDecompressor>;

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
      throw DataError(path, "has ", compressed.size(), " bytes, which expand to more than ",
                      max_bytes, "; expand it with gunzip if that is right");
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
  Buffer content;
  content.shrink(read_file(path, [&](std::size_t size) {
    content = Buffer(size);
    return content.data();
  }));
  const bool gzip = content.size() >= 2 && content.data()[0] == 0x1f && content.data()[1] == 0x8b;
  return gzip ? gunzip(content, path) : std::move(content);
}

}  // namespace trainer::data
