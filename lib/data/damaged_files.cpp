#include "data/damaged_files.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/random.h"

namespace trainer::data {

void ErrorBudget::check(std::int64_t count, const std::string& last) const {
  if (count <= allowed) return;
  throw DataError(source, count, " damaged files are more than data.error_budget allows (", allowed,
                  "); the last one: ", last);
}

DamagedFiles::DamagedFiles(Options options, Scan scan)
    : options_(std::move(options)),
      scan_(std::move(scan)),
      samples_(std::ssize(options_.labels)),
      report_(std::move(options_.notes)) {
  divide({});
}

DamagedFiles::DamagedFiles(std::int64_t files, std::vector<std::string> reasons,
                           std::vector<std::string> left_aside)
    : samples_(files - std::ssize(reasons)), skipped_(std::move(reasons)) {
  options_.left_aside = std::move(left_aside);
  for (const std::string& reason : skipped_) report_.push_back("skipped: " + reason);
}

Damage DamagedFiles::damage() const {
  const std::lock_guard lock(mutex_);
  const auto skipped = std::ssize(skipped_);
  Damage damage{skipped,  std::ssize(replaced_), samples_ + skipped,
                skipped_, options_.left_aside,   std::ssize(warnings_),
                {}};
  if (!warnings_.empty()) damage.warning = warnings_.begin()->second;
  return damage;
}

std::vector<std::string> DamagedFiles::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

void DamagedFiles::note_skipped(const std::string& reason, const std::string& class_name) {
  const std::lock_guard lock(mutex_);
  skipped_.push_back(reason);
  report_.push_back(concat("skipped (class ", class_name, "): ", reason));
}

void DamagedFiles::note(const std::string& line) {
  const std::lock_guard lock(mutex_);
  report_.push_back(line);
}

void DamagedFiles::note_warning(std::int64_t index, const std::string& warning) {
  const std::lock_guard lock(mutex_);
  warnings_.try_emplace(index, warning);
}

bool DamagedFiles::replaces(std::int64_t index) const {
  return options_.replaces && (irreplaceable_.empty() || !irreplaceable_[index]);
}

void DamagedFiles::replace(std::int64_t index, const std::string& path, const std::string& reason,
                           const std::function<void(std::int64_t)>& read) {
  note_replaced(index, reason);
  const std::vector<std::int64_t>& others = groups_.at(find_group(index));
  Random draws(options_.seed, Stream::kReplace, static_cast<std::uint64_t>(index));
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::int64_t other = others[draws.below(others.size())];
    if (other == index) continue;
    try {
      read(other);
      return;
    } catch (const DataError& error) {
      note_replaced(other, error.what());
    }
  }
  throw DataError(path,
                  "cannot be read, and no other file of the class " + class_name(index) + " can");
}

void DamagedFiles::divide(const std::vector<std::int64_t>& set_aside) {
  if (!options_.replaces) return;
  portions_.assign(samples_, Portion::kMain);
  for (const std::int64_t i : set_aside) {
    portions_[i] = Portion::kSetAside;
  }
  groups_.clear();
  for (std::int64_t i = 0; i < samples_; ++i) groups_[find_group(i)].push_back(i);
}

std::vector<std::string> DamagedFiles::find_unreadable(Portion portion) {
  if (!options_.replaces) return {};
  irreplaceable_.resize(samples_);
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < portions_.size(); ++i) {
    if (portions_[i] != portion) continue;
    irreplaceable_[i] = true;
    indices.push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::string> reasons = scan_(indices);
  const auto is_damaged = [](const std::string& reason) { return !reason.empty(); };
  const auto last = std::find_if(reasons.rbegin(), reasons.rend(), is_damaged);
  if (last != reasons.rend()) {
    options_.budget.check(std::ranges::count_if(reasons, is_damaged), *last);
  }
  return reasons;
}

DamagedFiles::Group DamagedFiles::find_group(std::int64_t index) const {
  return {portions_[index], options_.labels[index]};
}

const std::string& DamagedFiles::class_name(std::int64_t index) const {
  const std::int32_t label = options_.labels[index];
  return options_.classes[label];
}

void DamagedFiles::note_replaced(std::int64_t index, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!replaced_.insert(index).second) return;
  report_.push_back(concat("replaced (class ", class_name(index), "): ", reason));
  options_.budget.check(std::ssize(replaced_), reason);
}

}  // namespace trainer::data
