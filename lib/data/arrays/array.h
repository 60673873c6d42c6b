// Arrays as files hold them: what IDX, NPY and NPZ have in common, and the data set made of two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

using Path = std::filesystem::path;

// Bytes that were not cleared first, since they are about to be overwritten; big ones in huge
// pages, which makes them faster to fill and to read at random.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size);
  std::uint8_t* data() { return memory_.get(); }
  const std::uint8_t* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  void shrink(std::size_t size) { size_ = size; }
  std::span<const std::uint8_t> span() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::size_t size_ = 0;
};

// The file's bytes, decompressed when it is a gzip file (told by its content, not its name).
Buffer read_maybe_gzip(const Path& path);

enum class Element { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64 };
std::size_t size_of(Element element);
bool is_float(Element element);

struct Array {
  std::string source;  // the file, or file:array, for messages
  Element element = Element::kU8;
  std::vector<std::int64_t> dims;
  Buffer buffer;
  std::size_t offset = 0;  // where the elements start; native byte order, C order, packed

  const std::uint8_t* bytes() const { return buffer.data() + offset; }
  std::int64_t count() const;  // elements
  double at(std::int64_t i) const;
};

// Checks that the bytes after `offset` are exactly the elements of `dims`, at least one, so that
// their number is no larger than the file. Throws DataError.
void check_size(const Array& array);
// Reverses the bytes of each element.
void swap_bytes(Array& array);

Array read_idx(const Path& path);
Array read_npy(const Path& path);
bool is_zip(const Path& path);
// The names of the arrays of an .npz file, and one of them.
std::vector<std::string> npz_names(const Path& path);
Array read_npz(const Path& path, const std::string& name);

// CIFAR's binary files, one after the other: records of a label (CIFAR-100: a coarse one and this)
// and the planes of 32 x 32 pixels.
struct Cifar {
  Array images, labels;
};
Cifar read_cifar(const std::vector<Path>& files);

// Images [n, height, width], [n, height, width, channels] or [n, features] with labels [n] or
// [n, targets], all in memory.
class MemoryDataset final : public Dataset {
 public:
  MemoryDataset(Array images, Array labels);
  std::int64_t size() const override { return images_.dims[0]; }
  const DatasetSpec& spec() const override { return spec_; }
  std::int32_t label_of(std::int64_t index) const override {
    return indices_.empty() ? -1 : indices_[static_cast<std::size_t>(index)];
  }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override;
  std::string fingerprint() const override;
  std::string common_content() const override { return content_key(); }
  std::string content_key() const override;

  // -1 without class indices. Throws DataError when the labels would make impossibly many classes.
  std::int64_t max_label() const;
  // Throws DataError naming file and sample unless every label lies in [0, num_classes).
  void check_labels(std::int64_t num_classes) const;

 private:
  Array images_;
  std::string label_source_;
  DatasetSpec spec_;
  std::size_t image_bytes_ = 0;
  std::vector<std::int32_t> indices_;
  std::vector<float> targets_;
};

std::unique_ptr<Dataset> make_synthetic(const config::Synthetic& config, std::uint64_t seed,
                                        bool test);

}  // namespace trainer::data
