#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "base/random.h"
#include "data/splits.h"

namespace trainer::data {
namespace {

// How the fingerprints of the parts of a split end.
constexpr std::string_view kTrainPart = " train", kValidationPart = " validation";

// Some samples of another set. The parts of a split read the same set and may outlive each other,
// which is why they share it.
class View final : public Dataset {
 public:
  // Whether random changes are those of the base; a validation part has none.
  enum class Changes { kOfBase, kNone };
  View(std::shared_ptr<const Dataset> base, std::vector<std::int64_t> indices,
       std::string fingerprint_end, std::string key_end, Changes changes)
      : base_(std::move(base)),
        indices_(std::move(indices)),
        spec_(base_->spec()),
        fingerprint_end_(std::move(fingerprint_end)),
        key_end_(std::move(key_end)),
        changes_(changes) {
    if (changes == Changes::kNone) spec_.is_random = false;
  }
  std::int32_t label_of(std::int64_t index) const override { return base_->label_of(at(index)); }
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  const DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    base_->get(at(index), changes_ == Changes::kOfBase ? epoch : kNoEpoch, image, label);
  }
  std::string describe(std::int64_t index) const override { return base_->describe(at(index)); }
  std::string fingerprint() const override { return base_->fingerprint() + fingerprint_end_; }
  std::string content_key() const override {
    return base_->content_key() + fingerprint_end_ + key_end_;
  }
  std::string common_content() const override {
    const auto* indices = reinterpret_cast<const std::uint8_t*>(indices_.data());
    return concat(base_->common_content(), fingerprint_end_, " samples ", std::hex,
                  crc32c({indices, indices_.size() * sizeof(indices_[0])}));
  }

 private:
  std::int64_t at(std::int64_t index) const { return indices_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Dataset> base_;
  std::vector<std::int64_t> indices_;
  DatasetSpec spec_;
  std::string fingerprint_end_, key_end_;
  Changes changes_;
};

}  // namespace

std::unique_ptr<Dataset> take_first(std::unique_ptr<Dataset> dataset, std::int64_t count) {
  if (count >= dataset->size()) return dataset;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return std::make_unique<View>(std::move(dataset), std::move(indices), concat(", first ", count),
                                "", View::Changes::kOfBase);
}

SplitPair split_off(std::unique_ptr<Dataset> dataset, DamagedFiles* files, double fraction,
                    std::uint64_t seed) {
  const Division division = divide_samples(dataset->size(), fraction, seed);
  if (files != nullptr) files->divide(division.validation);
  const std::shared_ptr<const Dataset> base = std::move(dataset);
  const std::string what = concat(", split ", fraction, " seed ", seed);
  return {std::make_unique<View>(base, division.train, concat(what, kTrainPart), "",
                                 View::Changes::kOfBase),
          std::make_unique<View>(base, division.validation, concat(what, kValidationPart), "",
                                 View::Changes::kNone)};
}

void leave_out_unreadable(std::unique_ptr<Dataset>& dataset, std::shared_ptr<DamagedFiles>& files,
                          DamagedFiles::Portion portion) {
  if (!files) return;
  std::vector<std::string> reasons = files->find_unreadable(portion);
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i].empty()) kept.push_back(static_cast<std::int64_t>(i));
  }
  std::erase(reasons, "");
  if (reasons.empty()) return;
  if (kept.empty()) throw DataError("data", "no sample can be read; the first: " + reasons[0]);
  std::string key_end;
  for (const std::string& reason : reasons) key_end += ", without " + reason;
  const std::int64_t size = dataset->size();
  // What is left out for evaluation is not another division of the samples.
  dataset = std::make_unique<View>(std::move(dataset), std::move(kept), "", std::move(key_end),
                                   View::Changes::kOfBase);
  files = std::make_shared<DamagedFiles>(size, std::move(reasons), files->damage().left_aside);
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

std::int64_t most_classes(std::int64_t samples) {
  return std::max<std::int64_t>(10'000, 100 * samples);
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
