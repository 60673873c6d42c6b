#include "data/arrays/cifar.h"

#include <algorithm>

#include "base/error.h"
#include "data/arrays/gzip.h"

namespace trainer::data {
namespace {

constexpr std::size_t kCifarSide = 32, kPlane = kCifarSide * kCifarSide, kImageBytes = 3 * kPlane;

// Returns the number of bytes before the pixels, the last of which is the class: 1 for CIFAR-10, 2
// for CIFAR-100. Decided by the size of the file, and by its labels if both fit.
std::size_t label_bytes(const Path& path, const Buffer& file) {
  const std::size_t size = file.size();
  const bool ten = size > 0 && size % (kImageBytes + 1) == 0;
  const bool hundred = size > 0 && size % (kImageBytes + 2) == 0;
  if (!ten && !hundred) {
    throw DataError(path.string(), "is not a binary file of CIFAR: ", size,
                    " bytes are not records of ", kImageBytes + 1, " (CIFAR-10) or ",
                    kImageBytes + 2,
                    " bytes (CIFAR-100); fetch the `binary version` of the data set");
  }
  if (ten && hundred) {
    for (std::size_t at = 0; at < size; at += kImageBytes + 1) {
      if (file.data()[at] > 9) return 2;
    }
  }
  return ten ? 1 : 2;
}

Array make_array(const std::string& source, std::vector<std::int64_t> dims, std::size_t bytes) {
  Array array;
  array.source = source;
  array.dims = std::move(dims);
  array.buffer = Buffer(bytes);
  return array;
}

}  // namespace

Cifar read_cifar(const std::vector<Path>& files) {
  if (files.empty()) throw std::logic_error("no files of CIFAR");
  std::vector<Buffer> contents;
  std::size_t samples = 0, before = 0;
  for (const Path& path : files) {
    contents.push_back(read_maybe_gzip(path));
    const std::size_t bytes = label_bytes(path, contents.back());
    if (before != 0 && bytes != before) {
      throw DataError(path.string(), "is not of the same CIFAR data set as " + files[0].string());
    }
    before = bytes;
    samples += contents.back().size() / (bytes + kImageBytes);
  }
  const auto count = static_cast<std::int64_t>(samples);
  const std::string source = files[0].string();
  Cifar result{make_array(source, {count, kCifarSide, kCifarSide, 3}, samples * kImageBytes),
               make_array(source, {count}, samples)};
  std::uint8_t* pixels = result.images.buffer.data();
  std::uint8_t* label = result.labels.buffer.data();
  for (const Buffer& file : contents) {
    for (std::size_t at = 0; at < file.size(); at += before + kImageBytes, ++label) {
      *label = file.data()[at + before - 1];
      const std::uint8_t* planes = file.data() + at + before;
      for (std::size_t i = 0; i < kPlane; ++i, pixels += 3) {
        for (std::size_t c = 0; c < 3; ++c) pixels[c] = planes[c * kPlane + i];
      }
    }
  }
  return result;
}

}  // namespace trainer::data
