#include "data/samples/weights.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "data/samples/mix.h"

namespace trainer::data {
namespace {

class WeightedDataset final : public Dataset {
 public:
  WeightedDataset(std::unique_ptr<Dataset> base, std::int64_t label_width)
      : base_(std::move(base)), spec_(base_->spec()) {
    if (!spec_.label_is_index() && !spec_.is_multi_label()) {
      throw std::logic_error("weigh_samples: the labels are not classes");
    }
    if (spec_.label_is_index()) spec_.label_kind = LabelKind::kTargets;
    spec_.label_width = label_width + 1;
    spec_.ends_with_weight = true;
  }

  std::int64_t size() const override { return base_->size(); }
  const DatasetSpec& spec() const override { return spec_; }
  std::string describe(std::int64_t index) const override { return base_->describe(index); }
  std::int32_t label_at(std::int64_t index) const override { return base_->label_at(index); }
  LabelSet label_set_at(std::int64_t index) const override { return base_->label_set_at(index); }
  float weight_at(std::int64_t index) const override { return base_->weight_at(index); }
  std::string fingerprint() const override { return base_->fingerprint() + weights_text(); }
  std::string content_key() const override { return base_->content_key() + weights_text(); }
  std::string common_content() const override { return base_->common_content() + weights_text(); }

  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    const std::span row(static_cast<float*>(label), spec_.label_width);
    if (spec_.is_multi_label()) {
      base_->get(index, epoch, image, row.data());
    } else {
      std::int32_t index_of_class = 0;
      base_->get(index, epoch, image, &index_of_class);
      write_label_row(index_of_class, row.first(row.size() - 1));
    }
    row.back() = base_->weight_at(index);
  }

 private:
  std::string weights_text() const {
    std::uint32_t crc = 0;
    for (std::int64_t i = 0; i < size(); ++i) {
      const float weight = weight_at(i);
      crc = crc32c({reinterpret_cast<const std::uint8_t*>(&weight), sizeof weight}, crc);
    }
    return concat(", weights crc32c ", to_hex(crc));
  }

  std::unique_ptr<Dataset> base_;
  DatasetSpec spec_;
};

}  // namespace

std::unique_ptr<Dataset> weigh_samples(std::unique_ptr<Dataset> dataset, std::int64_t label_width) {
  return std::make_unique<WeightedDataset>(std::move(dataset), label_width);
}

}  // namespace trainer::data
