#include "data/samples/splits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/files/files.h"
#include "base/numbers/random.h"
#include "base/text.h"

namespace trainer::data {
namespace {

// The ends of the fingerprints of the parts of a split.
constexpr std::string_view kTrainPart = " train", kValidationPart = " validation";

// Some samples of another set. The parts of a split share the set because they may outlive each
// other.
class View final : public Dataset {
 public:
  // The random changes: those of the base, or none for a validation part.
  enum class Changes { kOfBase, kNone };
  // kOwn: a sample of the view may differ from that of the base, or the base has many more samples.
  enum class Samples { kOfBase, kOwn };
  View(std::shared_ptr<const Dataset> base, std::vector<std::int64_t> indices,
       std::string fingerprint_end, std::string key_end, Changes changes,
       Samples samples = Samples::kOwn)
      : base_(std::move(base)),
        indices_(std::move(indices)),
        spec_(base_->spec()),
        fingerprint_end_(std::move(fingerprint_end)),
        key_end_(std::move(key_end)),
        changes_(changes),
        samples_(samples) {
    if (changes == Changes::kNone) spec_.is_random = false;
  }
  std::int32_t label_at(std::int64_t index) const override { return base_->label_at(at(index)); }
  LabelSet label_set_at(std::int64_t index) const override {
    return base_->label_set_at(at(index));
  }
  float weight_at(std::int64_t index) const override { return base_->weight_at(at(index)); }
  std::string group_at(std::int64_t index) const override { return base_->group_at(at(index)); }
  std::int64_t size() const override { return std::ssize(indices_); }
  const DatasetSpec& spec() const override { return spec_; }
  using Dataset::get;
  void get(std::int64_t index, std::int64_t epoch, void* image, void* label) const override {
    base_->get(at(index), changes_ == Changes::kOfBase ? epoch : kNoEpoch, image, label);
  }
  std::string describe(std::int64_t index) const override { return base_->describe(at(index)); }
  Part find_part() const override {
    return samples_ == Samples::kOfBase ? Part{base_.get(), indices_} : Part{};
  }
  std::string fingerprint() const override { return base_->fingerprint() + fingerprint_end_; }
  std::string content_key() const override {
    return base_->content_key() + fingerprint_end_ + key_end_;
  }
  std::string common_content() const override {
    const auto* indices = reinterpret_cast<const std::uint8_t*>(indices_.data());
    return concat(base_->common_content(), fingerprint_end_, " samples ",
                  to_hex(crc32c({indices, indices_.size() * sizeof(indices_[0])})));
  }

 private:
  std::int64_t at(std::int64_t index) const { return indices_[index]; }

  std::shared_ptr<const Dataset> base_;
  std::vector<std::int64_t> indices_;
  DatasetSpec spec_;
  std::string fingerprint_end_, key_end_;
  Changes changes_;
  Samples samples_;
};

// The samples of a class, and the number of them that are set aside.
struct Class {
  std::vector<std::int64_t> samples;
  std::int64_t taken = 0;
};

// Sets `wanted` samples aside: the integer part of the share of each class first, then one more
// from the classes with the largest fractions. A class keeps a sample for training as long as
// others can give one.
void share_out(std::int64_t wanted, double fraction, std::map<std::int32_t, Class>& classes) {
  std::vector<std::pair<double, Class*>> rests;
  for (auto& [label, each] : classes) {
    const double share = static_cast<double>(each.samples.size()) * fraction;
    each.taken = static_cast<std::int64_t>(share);
    wanted -= each.taken;
    rests.emplace_back(share - std::floor(share), &each);
  }
  std::ranges::stable_sort(rests, [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const std::int64_t kept : {1, 0}) {
    for (auto& [rest, each] : rests) {
      if (wanted <= 0 || each->taken >= std::ssize(each->samples) - kept) {
        continue;
      }
      ++each->taken;
      --wanted;
    }
  }
  for (auto& [rest, each] : rests) {  // rounding may have set one too many aside
    if (wanted >= 0 || each->taken == 0) continue;
    --each->taken;
    ++wanted;
  }
}

}  // namespace

std::unique_ptr<Dataset> take_first(std::unique_ptr<Dataset> dataset, std::int64_t count) {
  if (count >= dataset->size()) return dataset;
  std::vector<std::int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return std::make_unique<View>(std::move(dataset), std::move(indices), concat(", first ", count),
                                "", View::Changes::kOfBase);
}

std::unique_ptr<Dataset> take_samples(std::unique_ptr<Dataset> dataset,
                                      std::vector<std::int64_t> indices) {
  const std::string key = concat(", ", indices.size(), " samples");
  return std::make_unique<View>(std::move(dataset), std::move(indices), key, "",
                                View::Changes::kNone);
}

SplitPair split_off(std::unique_ptr<Dataset> dataset, DamagedFiles* files, Division division,
                    const std::string& key) {
  if (files != nullptr) files->divide(division.validation);
  const std::shared_ptr<const Dataset> base = std::move(dataset);
  // A damaged sample is replaced by one of its own part.
  const View::Samples samples =
      files != nullptr && files->replaces_any() ? View::Samples::kOwn : View::Samples::kOfBase;
  return {std::make_unique<View>(base, std::move(division.train), concat(key, kTrainPart), "",
                                 View::Changes::kOfBase, samples),
          std::make_unique<View>(base, std::move(division.validation), concat(key, kValidationPart),
                                 "", View::Changes::kNone, samples)};
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
  if (kept.empty()) throw DataError("data", "no sample can be read; the first one: " + reasons[0]);
  std::string key_end;
  for (const std::string& reason : reasons) key_end += ", without " + reason;
  const std::int64_t size = dataset->size();
  // The fingerprint stays, because samples left out for evaluation do not change the division.
  dataset = std::make_unique<View>(std::move(dataset), std::move(kept), "", std::move(key_end),
                                   View::Changes::kOfBase);
  files = std::make_shared<DamagedFiles>(size, std::move(reasons), files->damage().left_aside);
}

Division divide_samples(std::span<const std::int32_t> labels, double fraction, std::uint64_t seed) {
  if (labels.size() < 2) {
    throw DataError("data.validation_split", "needs at least two training samples");
  }
  std::map<std::int32_t, Class> classes;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    classes[labels[i]].samples.push_back(static_cast<std::int64_t>(i));
  }
  const double wanted = static_cast<double>(labels.size()) * fraction;
  const auto max_taken = std::ssize(labels) - 1;
  share_out(std::clamp<std::int64_t>(std::llround(wanted), 1, max_taken), fraction, classes);
  Division division;
  Random random(seed, Stream::kSplit);
  for (auto& [label, each] : classes) {
    std::vector<std::int64_t>& samples = each.samples;
    const std::size_t count = each.taken;
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(samples[i], samples[i + random.below(samples.size() - i)]);
    }
    const auto middle = samples.begin() + count;
    division.validation.insert(division.validation.end(), samples.begin(), middle);
    division.train.insert(division.train.end(), middle, samples.end());
  }
  std::ranges::sort(division.train);
  std::ranges::sort(division.validation);
  return division;
}

bool same_division(const std::string& trained, const std::string& part) {
  std::string whole = part;
  for (const std::string_view end : {kTrainPart, kValidationPart}) {
    if (whole.ends_with(end)) whole.resize(whole.size() - end.size());
  }
  // The name of the part and the changes of training samples may follow.
  const std::string rest = trained.starts_with(whole) ? trained.substr(whole.size()) : "x";
  return rest.empty() || rest[0] == ' ' || rest[0] == ',';
}

std::int64_t max_classes(std::int64_t samples) {
  return std::max<std::int64_t>(10'000, 100 * samples);
}

std::vector<std::int64_t> class_counts(const Dataset& dataset, std::int64_t classes) {
  std::vector<std::int64_t> counts(classes);
  for (const std::int32_t label : list_labels(dataset)) {
    if (label < 0 || label >= classes) return {};
    ++counts[label];
  }
  return counts;
}

}  // namespace trainer::data
