#include "checkpoint/hdf5/numbers.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>

#include "checkpoint/hdf5/types.h"

namespace trainer::checkpoint::hdf5 {
namespace {

// DEFLATE cannot shrink more than 1032 times.
constexpr std::uint64_t kMaxDeflateRatio = 1032;

enum class Filter : std::uint16_t { kDeflate = 1, kShuffle = 2 };

// A dataset as its header describes it.
struct Dataset {
  Input& input;
  std::string path;
  Datatype type;
  std::vector<std::uint64_t> extents;
  std::uint64_t elements = 0;
  std::vector<Filter> filters;  // in the order in which they were applied
  Content content = Content::kAll;

  std::uint64_t bytes() const { return elements * type.bytes; }
  // Throws unless `stored` bytes can be all elements.
  void check_stored(std::uint64_t stored) const {
    const std::uint64_t packed = std::min(stored, input.size());
    if (bytes() > (filters.empty() ? packed : packed * kMaxDeflateRatio)) {
      input.fail(concat("'", path, "' claims ", elements, " numbers, but holds ", stored,
                        " bytes: the file is damaged"));
    }
  }
};

View find_message(Input& input, const Object& object, MessageType type, const std::string& path) {
  const Message* message = object.find(type);
  if (message == nullptr) input.damaged("'" + path + "' is not a whole dataset");
  if (message->shared) input.unsupported("a dataset whose type or shape lies elsewhere");
  return message->body;
}

std::vector<Filter> read_filters(Input& input, const Object& object) {
  const Message* message = object.find(MessageType::kFilters);
  if (message == nullptr) return {};
  if (message->shared) input.unsupported("a dataset whose filters lie elsewhere");
  Fields fields(input, message->body, "a list of filters");
  const auto version = fields.next<std::uint8_t>();
  const int count = fields.next<std::uint8_t>();
  if (version < 1 || version > 2) input.damaged("a list of filters has no known version");
  if (version == 1) fields.skip(6);
  std::vector<Filter> filters;
  for (int i = 0; i < count; ++i) {
    const auto id = fields.next<std::uint16_t>();
    if (id != 1 && id != 2) input.unsupported(concat("the compression filter ", id));
    // Version 2 has no names of HDF5's own filters.
    const std::size_t name = version == 1 ? fields.next<std::uint16_t>() : 0;
    fields.skip(2);
    const std::size_t values = fields.next<std::uint16_t>();
    fields.skip((name + 7) / 8 * 8);
    fields.skip(4 * values);
    if (version == 1 && values % 2 == 1) fields.skip(4);
    filters.push_back(static_cast<Filter>(id));
  }
  return filters;
}

void unshuffle(View from, std::size_t width, std::vector<std::uint8_t>& to) {
  const std::size_t count = from.size() / width;
  to.resize(from.size());
  for (std::size_t byte = 0; byte < width; ++byte) {
    for (std::size_t i = 0; i < count; ++i) to[i * width + byte] = from[byte * count + i];
  }
  std::copy(from.begin() + count * width, from.end(), to.begin() + count * width);
}

// A chunk: elements of a box of the dataset, whose first corner is a multiple of the box's extents.
struct Chunk {
  View corner;  // a 64-bit number for each dimension
  std::uint32_t bytes, skipped_filters;
  std::uint64_t address;

  std::uint64_t at(std::size_t dim) const {
    std::uint64_t value;
    std::memcpy(&value, corner.data() + 8 * dim, sizeof value);
    return value;
  }
};

class Chunks {
 public:
  Chunks(const Dataset& dataset, std::vector<std::uint64_t> box)
      : dataset_(dataset), input_(dataset.input), box_(std::move(box)) {
    for (const std::uint64_t extent : box_) {
      if (extent == 0 || __builtin_mul_overflow(bytes_, extent, &bytes_)) broken("chunk size");
    }
    if (__builtin_mul_overflow(bytes_, std::uint64_t{dataset.type.bytes}, &bytes_)) {
      broken("chunk size");
    }
  }

  void read(std::uint64_t tree, std::vector<float>& values) {
    if (tree != kUndefined) read_tree(tree, -1);
    std::uint64_t stored = 0;
    for (const Chunk& chunk : chunks_) stored += chunk.bytes;
    dataset_.check_stored(stored);
    check_complete();
    values.resize(dataset_.elements);
    for (const Chunk& chunk : chunks_) place(unpack(chunk), chunk, values);
  }

 private:
  [[noreturn]] void broken(const char* what) const {
    input_.damaged(concat("'", dataset_.path, "' has an impossible ", what));
  }

  void read_tree(std::uint64_t address, int level) {
    constexpr const char* kWhat = "the tree of a dataset";
    Fields head(input_, input_.claim(address, 24, kWhat), kWhat);
    head.expect("TREE");
    if (head.next<std::uint8_t>() != 1) input_.damaged(concat(kWhat, " is of another kind"));
    const int own_level = head.next<std::uint8_t>();
    if (level >= 0 && own_level != level) input_.damaged(concat(kWhat, " has no order"));
    const std::uint64_t count = head.next<std::uint16_t>();
    const std::uint64_t key = 8 + 8 * (box_.size() + 1);
    Fields body(input_, input_.claim(address + 24, count * (key + 8), kWhat), kWhat);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto size = body.next<std::uint32_t>(), skipped = body.next<std::uint32_t>();
      const View corner = body.take(8 * box_.size());
      body.skip(8);
      const auto child = body.next<std::uint64_t>();
      if (own_level > 0) {
        read_tree(child, own_level - 1);
      } else {
        chunks_.push_back({corner, size, skipped, child});
      }
    }
  }

  // Each box of the dataset is there once.
  void check_complete() {
    std::uint64_t expected = 1;
    std::vector<std::uint64_t> counts;
    for (std::size_t dim = 0; dim < box_.size(); ++dim) {
      counts.push_back((dataset_.extents[dim] - 1) / box_[dim] + 1);
      expected *= counts.back();  // at most the number of elements
    }
    if (chunks_.size() != expected) {
      input_.damaged(
          concat("'", dataset_.path, "' has ", chunks_.size(), " of its ", expected, " chunks"));
    }
    const auto number = [&](const Chunk& chunk) {
      std::uint64_t index = 0;
      for (std::size_t dim = 0; dim < box_.size(); ++dim) {
        const std::uint64_t at = chunk.at(dim);
        if (at >= dataset_.extents[dim] || at % box_[dim] != 0) broken("chunk");
        index = index * counts[dim] + at / box_[dim];
      }
      return index;
    };
    std::vector<bool> seen(expected, false);
    for (const Chunk& chunk : chunks_) {
      const std::uint64_t index = number(chunk);
      if (seen[index]) broken("chunk");
      seen[index] = true;
    }
  }

  View unpack(const Chunk& chunk) {
    View bytes = input_.claim(chunk.address, chunk.bytes, "a chunk");
    if (bytes_ > kMaxDeflateRatio * bytes.size()) broken("chunk size");
    for (std::size_t i = dataset_.filters.size(); i-- > 0;) {
      if (i < 32 && (chunk.skipped_filters >> i & 1u)) continue;
      std::vector<std::uint8_t>& to =
          bytes.data() == buffers_[0].data() ? buffers_[1] : buffers_[0];
      if (dataset_.filters[i] == Filter::kShuffle) {
        unshuffle(bytes, dataset_.type.bytes, to);
      } else {
        inflate(bytes, to);
      }
      bytes = to;
    }
    if (bytes.size() != bytes_) broken("chunk size");
    return bytes;
  }

  void inflate(View from, std::vector<std::uint8_t>& to) {
    to.resize(bytes_);
    const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
        libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
    if (libdeflate_zlib_decompress(decompressor.get(), from.data(), from.size(), to.data(),
                                   to.size(), nullptr) != LIBDEFLATE_SUCCESS) {
      input_.damaged("'" + dataset_.path + "' cannot be decompressed");
    }
  }

  // Copies the rows of a chunk that lie in the dataset.
  void place(View bytes, const Chunk& chunk, std::vector<float>& values) const {
    const std::size_t rank = box_.size(), width = dataset_.type.bytes;
    const auto inside = [&](std::size_t dim) {
      return std::min(box_[dim], dataset_.extents[dim] - chunk.at(dim));
    };
    const std::uint64_t row = inside(rank - 1);
    std::vector<std::uint64_t> index(rank, 0);  // in the chunk, of the first element of a row
    for (;;) {
      std::uint64_t from = 0, to = 0;
      for (std::size_t dim = 0; dim < rank; ++dim) {
        from = from * box_[dim] + index[dim];
        to = to * dataset_.extents[dim] + chunk.at(dim) + index[dim];
      }
      convert(dataset_.type, bytes.subspan(from * width, row * width), values.data() + to);
      std::size_t dim = rank - 1;
      for (; dim > 0; --dim) {
        if (++index[dim - 1] < inside(dim - 1)) break;
        index[dim - 1] = 0;
      }
      if (dim == 0) return;
    }
  }

  const Dataset& dataset_;
  Input& input_;
  std::vector<std::uint64_t> box_;
  std::uint64_t bytes_ = 1;  // of a whole chunk
  std::vector<Chunk> chunks_;
  std::vector<std::uint8_t> buffers_[2];
};

void read_chunked(const Dataset& dataset, Fields& layout, std::vector<float>& values) {
  const std::size_t rank = dataset.extents.size();
  if (layout.next<std::uint8_t>() != rank + 1 || rank == 0) {
    dataset.input.damaged("'" + dataset.path + "' has chunks of another rank");
  }
  const auto tree = layout.next<std::uint64_t>();
  std::vector<std::uint64_t> box;
  for (std::size_t dim = 0; dim < rank; ++dim) box.push_back(layout.next<std::uint32_t>());
  if (dataset.content == Content::kAll) Chunks(dataset, std::move(box)).read(tree, values);
}

void read_whole(const Dataset& dataset, View stored, std::vector<float>& values) {
  if (dataset.content == Content::kShapes) return;
  values.resize(dataset.elements);
  convert(dataset.type, stored.first(dataset.bytes()), values.data());
}

void read_layout(const Dataset& dataset, View message, std::vector<float>& values) {
  enum Class : std::uint8_t { kCompact = 0, kContiguous = 1, kChunked = 2 };
  Input& input = dataset.input;
  Fields layout(input, message, "the layout of a dataset");
  const int version = layout.next<std::uint8_t>();
  const auto kind = layout.next<std::uint8_t>();
  if (version < 3 || version > 4 || kind > kChunked || (version == 4 && kind == kChunked)) {
    input.unsupported(concat("a dataset in layout ", int{kind}, " of version ", version));
  }
  if (kind == kChunked) return read_chunked(dataset, layout, values);
  if (!dataset.filters.empty()) input.damaged("'" + dataset.path + "' has filters and no chunks");
  if (kind == kCompact) {
    const std::uint64_t size = layout.next<std::uint16_t>();
    dataset.check_stored(size);
    return read_whole(dataset, layout.take(size), values);
  }
  const auto address = layout.next<std::uint64_t>();
  const std::uint64_t size = address == kUndefined ? 0 : layout.next<std::uint64_t>();
  dataset.check_stored(size);
  read_whole(dataset, input.claim(address, dataset.bytes(), "a dataset"), values);
}

}  // namespace

Tensor read_numbers(Input& input, const Object& object, const std::string& path,
                    const std::string& name, Content content) {
  if (object.find(MessageType::kExternalFiles) != nullptr) {
    input.unsupported("a dataset in another file");
  }
  const View space_message = find_message(input, object, MessageType::kDataspace, path);
  const Dataspace space = read_dataspace(input, space_message);
  const std::optional<std::uint64_t> elements = space.elements();
  if (space.is_null) input.fail("'" + path + "' holds no numbers");
  if (!elements) input.fail("'" + path + "' is impossibly large: the file is damaged");
  Dataset dataset{input, path, {}, space.extents, *elements, read_filters(input, object), content};
  dataset.type = read_datatype(input, find_message(input, object, MessageType::kDatatype, path));
  if (dataset.type.kind != Datatype::Kind::kInteger &&
      dataset.type.kind != Datatype::Kind::kFloat && dataset.type.kind != Datatype::Kind::kBfloat) {
    input.fail("'" + path + "' holds no numbers");
  }
  Tensor tensor{name,
                Shape(std::vector<std::int64_t>(space.extents.begin(), space.extents.end())),
                {},
                dataset.type.kind == Datatype::Kind::kInteger};
  const View layout = find_message(input, object, MessageType::kLayout, path);
  if (dataset.elements > 0) read_layout(dataset, layout, tensor.values);
  return tensor;
}

}  // namespace trainer::checkpoint::hdf5
