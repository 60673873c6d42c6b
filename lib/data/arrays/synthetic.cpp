// Each image is a slice of one random pool, at a place that depends on (seed, index) alone. Reading
// an image is a copy of memory, for any size of the data set.
#include "data/arrays/synthetic.h"

#include <cstring>

#include "base/error.h"
#include "base/numbers/random.h"

namespace trainer::data {
namespace {

constexpr std::size_t kPool = std::size_t{1} << 20;

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const config::Synthetic& config, std::uint64_t seed, bool test)
      : size_(test ? config.test_samples : config.train_samples),
        classes_(config.classes),
        spec_{Shape(config.shape), DType::kUInt8, LabelKind::kIndex, 1, false, true},
        bytes_(spec_.image_bytes()),
        seed_(seed),
        part_(test ? 1 : 0),
        pool_((kPool + bytes_ + 3) / 4) {
    Random random(seed_, Stream::kSynthetic, 2);
    for (std::uint32_t& word : pool_) word = random.next_u32();
  }
  std::int64_t size() const override { return size_; }
  const DatasetSpec& spec() const override { return spec_; }

  void get(std::int64_t index, std::int64_t, void* image, void* label) const override {
    const auto [start, value] = draw(index);
    std::memcpy(image, reinterpret_cast<const std::uint8_t*>(pool_.data()) + start, bytes_);
    std::memcpy(label, &value, sizeof value);
  }
  std::int32_t label_at(std::int64_t index) const override { return draw(index).label; }

  std::string fingerprint() const override {
    return concat("synthetic ", size_, " x ", to_string(spec_.image_shape), " classes ", classes_,
                  " seed ", seed_, " part ", part_);
  }

 private:
  struct Sample {
    std::size_t start;  // of its image in the pool
    std::int32_t label;
  };
  Sample draw(std::int64_t index) const {
    Random random(seed_, Stream::kSynthetic, part_, static_cast<std::uint64_t>(index));
    const std::size_t start = random.next_u32() % kPool;
    return {start, static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(classes_)))};
  }

  std::int64_t size_, classes_;
  DatasetSpec spec_;
  std::size_t bytes_;
  std::uint64_t seed_, part_;
  std::vector<std::uint32_t> pool_;
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic(const config::Synthetic& config, std::uint64_t seed,
                                        bool test) {
  return std::make_unique<SyntheticDataset>(config, seed, test);
}

}  // namespace trainer::data
