#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "data/arrays/array.h"
#include "data/splits.h"

namespace trainer::data {
namespace {

// How the fingerprints of the parts of a split end.
constexpr std::string_view kTrainPart = " train", kValidationPart = " validation";

// Some samples of another set. The parts of a split read the same set and may outlive each other,
// which is why they share it.
class View final : public Dataset {
 public:
  View(std::shared_ptr<Dataset> base, std::vector<std::int64_t> indices, std::string what,
       bool training = true, std::vector<std::string> left_out = {})
      : base_(std::move(base)),
        indices_(std::move(indices)),
        what_(std::move(what)),
        left_out_(std::move(left_out)),
        training_(training) {}
  std::int32_t label_of(std::int64_t index) const override { return base_->label_of(at(index)); }
  Damage damage() const override {
    Damage damage = base_->damage();
    if (left_out_.empty()) return damage;
    const auto skipped = static_cast<std::int64_t>(left_out_.size());
    return {skipped, 0, size() + skipped, left_out_, damage.without_class};
  }
  std::vector<std::string> unreadable(const std::vector<std::int64_t>& indices) override {
    std::vector<std::int64_t> of_base;
    for (const std::int64_t index : indices) of_base.push_back(at(index));
    return base_->unreadable(of_base);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Shape image_shape() const override { return base_->image_shape(); }
  DType image_type() const override { return base_->image_type(); }
  bool label_is_index() const override { return base_->label_is_index(); }
  std::int64_t label_width() const override { return base_->label_width(); }
  bool in_memory() const override { return base_->in_memory(); }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    base_->get(at(index), training_ ? epoch : kNoEpoch, image, label);
  }
  bool is_random() const override { return training_ && base_->is_random(); }
  std::string describe(std::int64_t index) const override { return base_->describe(at(index)); }
  std::vector<std::string> report() const override {
    if (left_out_.empty()) return base_->report();
    std::vector<std::string> lines;
    for (const std::string& reason : left_out_) lines.push_back("skipped: " + reason);
    return lines;
  }
  // What is left out for evaluation is not another division of the samples.
  std::string fingerprint() const override { return base_->fingerprint() + what_; }
  std::string content_key() const override {
    std::string key = base_->content_key() + what_;
    for (const std::string& reason : left_out_) key += ", without " + reason;
    return key;
  }
  void divide(std::vector<std::int32_t> parts) override {
    std::vector<std::int32_t> of_base(static_cast<std::size_t>(base_->size()), -1);
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      of_base[static_cast<std::size_t>(indices_[i])] = parts[i];
    }
    base_->divide(std::move(of_base));
  }

 private:
  std::int64_t at(std::int64_t index) const { return indices_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<Dataset> base_;
  std::vector<std::int64_t> indices_;
  std::string what_;                   // ends the fingerprint
  std::vector<std::string> left_out_;  // why samples of the base are not among the indices
  bool training_;                      // a validation part is never changed at random
};

}  // namespace

std::unique_ptr<Dataset> take_first(std::unique_ptr<Dataset> dataset, std::int64_t count) {
  if (count >= dataset->size()) return dataset;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<std::int32_t> parts(static_cast<std::size_t>(dataset->size()), -1);
  std::fill_n(parts.begin(), count, 0);
  dataset->divide(std::move(parts));
  return std::make_unique<View>(std::move(dataset), std::move(indices), concat(", first ", count));
}

SplitPair split_off(std::unique_ptr<Dataset> dataset, double fraction, std::uint64_t seed) {
  const Division division = divide_samples(dataset->size(), fraction, seed);
  std::vector<std::int32_t> parts(static_cast<std::size_t>(dataset->size()), 0);
  for (const std::int64_t index : division.validation) parts[static_cast<std::size_t>(index)] = 1;
  dataset->divide(std::move(parts));

  const std::shared_ptr<Dataset> base = std::move(dataset);
  const std::string what = concat(", split ", fraction, " seed ", seed);
  return {std::make_unique<View>(base, division.train, concat(what, kTrainPart)),
          std::make_unique<View>(base, division.validation, concat(what, kValidationPart), false)};
}

std::unique_ptr<Dataset> without_damaged(std::unique_ptr<Dataset> dataset) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset->size()));
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<std::string> reasons = dataset->unreadable(indices);
  std::erase_if(indices, [&](std::int64_t index) {
    return !reasons.empty() && !reasons[static_cast<std::size_t>(index)].empty();
  });
  std::erase(reasons, "");
  if (reasons.empty()) return dataset;
  if (indices.empty()) throw DataError("data", "no sample can be read; the first: " + reasons[0]);
  return std::make_unique<View>(std::move(dataset), std::move(indices), "", true,
                                std::move(reasons));
}

Division divide_samples(std::int64_t size, double fraction, std::uint64_t seed) {
  const auto wanted = static_cast<std::int64_t>(std::llround(static_cast<double>(size) * fraction));
  if (size < 2) throw DataError("data.validation_split", "needs at least two training samples");
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(wanted, 1, size - 1));

  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, Stream::kSplit);
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(order[i], order[i + random.below(order.size() - i)]);
  }
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(order.begin(), middle);
  std::sort(middle, order.end());

  return {{middle, order.end()}, {order.begin(), middle}};
}

bool same_division(const std::string& trained, const std::string& part) {
  std::string whole = part;
  for (const std::string_view end : {kTrainPart, kValidationPart}) {
    if (whole.ends_with(end)) whole.resize(whole.size() - end.size());
  }
  // What may follow is the part's name and what is done to the samples of training.
  const std::string rest = trained.starts_with(whole) ? trained.substr(whole.size()) : "x";
  return rest.empty() || rest[0] == ' ' || rest[0] == ',';
}

std::vector<std::int64_t> class_counts(const Dataset& dataset, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const std::int32_t label = dataset.label_of(i);
    if (label < 0 || label >= classes) return {};
    ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

}  // namespace trainer::data
