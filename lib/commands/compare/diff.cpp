#include "commands/compare/diff.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"

namespace trainer::commands {
namespace {

void check_ledger(const results::RunFiles& run) {
  if (!run.ledger.empty() || !run.parameters.empty()) return;
  throw DataError((run.folder / "ledger.csv").string(),
                  "has no step: the run was made with run.ledger: false, or by an older version");
}

// The rows of a ledger, each with the samples of all steps since the last row that was taken: runs
// of other lengths and checkpoints have other rows.
class Ledger {
 public:
  explicit Ledger(const results::RunFiles& run) : rows_(run.ledger) {}

  bool at_end() const { return next_ == rows_.size(); }
  std::int64_t step() const { return rows_[next_].step; }
  const std::string& loss() const { return rows_[next_].loss; }
  const std::string& gradient_norm() const { return rows_[next_].gradient_norm; }
  const std::string& learning_rate() const { return rows_[next_].learning_rate; }
  std::int64_t samples() const { return samples_ + rows_[next_].samples; }
  // The sum of the steps' hashes, as the ledger has it for the steps of one row; "" where a hash is
  // not known.
  std::string sample_ids() const {
    const std::optional<std::uint64_t> ids = sum_with(rows_[next_].sample_ids);
    return ids ? to_hex(*ids, 16) : "";
  }
  void skip() {
    samples_ = samples();
    ids_ = sum_with(rows_[next_++].sample_ids);
  }
  void take() {
    samples_ = 0;
    ids_ = 0;
    ++next_;
  }

 private:
  std::optional<std::uint64_t> sum_with(const std::string& text) const {
    std::uint64_t id = 0;
    const char* end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data(), end, id, 16);
    if (!ids_ || error != std::errc() || after != end) return std::nullopt;
    return *ids_ + id;
  }

  const std::vector<results::LedgerRow>& rows_;
  std::size_t next_ = 0;
  std::int64_t samples_ = 0;
  std::optional<std::uint64_t> ids_ = 0;
};

// Returns whether two losses are equal but for the order in which samples are added, which depends
// on the number of replicas even if ordered sums give the same parameters.
bool are_same_losses(const std::string& one, const std::string& other) {
  constexpr double kRounding = 1e-12;  // relative
  if (one == other) return true;
  const double a = parse_real(one).value_or(NAN), b = parse_real(other).value_or(NAN);
  return std::isfinite(a) && std::isfinite(b) &&
         std::abs(a - b) <= kRounding * std::max(std::abs(a), std::abs(b));
}

// What differs between two rows of one step, causes before their effects.
std::vector<RunDiff::Field> differences(const Ledger& a, const Ledger& b) {
  using enum LedgerField;
  std::vector<RunDiff::Field> fields;
  const auto check = [&](LedgerField field, const std::string& one, const std::string& other) {
    if (one != other) fields.push_back({field, one, other});
  };
  const auto check_known = [&](LedgerField field, const std::string& one,
                               const std::string& other) {
    if (!one.empty() && !other.empty()) check(field, one, other);
  };
  check(kSamples, std::to_string(a.samples()), std::to_string(b.samples()));
  check_known(kSampleIds, a.sample_ids(), b.sample_ids());
  check(kLearningRate, a.learning_rate(), b.learning_rate());
  if (!are_same_losses(a.loss(), b.loss())) fields.push_back({kLoss, a.loss(), b.loss()});
  check_known(kGradientNorm, a.gradient_norm(), b.gradient_norm());
  return fields;
}

// A hash is of the parameters after its step, so that it comes behind the step's own row.
void compare_hashes(const results::RunFiles& first, const results::RunFiles& second,
                    RunDiff& diff) {
  for (const auto& [step, hash] : first.parameters) {
    const auto found = second.parameters.find(step);
    if (found == second.parameters.end()) continue;
    ++diff.common_hashes;
    if (found->second == hash || (diff.step && *diff.step < step)) continue;
    if (!diff.step || *diff.step > step) {
      diff.step = step;
      diff.fields.clear();
    }
    diff.fields.push_back({LedgerField::kParameters, hash, found->second});
  }
}

std::string likely_cause(const RunDiff& diff) {
  switch (diff.fields.front().field) {
    case LedgerField::kSamples:
      return "the batches are of different sizes";
    case LedgerField::kSampleIds:
      return "the steps trained on other samples: data, seed or shuffling";
    case LedgerField::kLearningRate:
      return "the schedules differ";
    case LedgerField::kGradientNorm:
      return "the losses were the same, the gradients were not";
    case LedgerField::kParameters:
      if (*diff.step == 0) return "the parameters differed from the start";
      break;
    case LedgerField::kLoss:
      break;
  }
  return diff.settings.empty()
             ? "samples and learning rates were the same: the arithmetic was not, or a gradient"
             : "samples and learning rates were the same: look at what differs below";
}

}  // namespace

RunDiff diff(const results::RunFiles& first, const results::RunFiles& second) {
  check_ledger(first);
  check_ledger(second);
  RunDiff diff;
  diff.first = first.folder.string();
  diff.second = second.folder.string();
  std::vector<std::int64_t> common;
  for (Ledger a(first), b(second); !a.at_end() && !b.at_end();) {
    if (a.step() != b.step()) {
      a.step() < b.step() ? a.skip() : b.skip();
      continue;
    }
    common.push_back(a.step());
    if (!diff.step) {
      diff.fields = differences(a, b);
      if (!diff.fields.empty()) diff.step = a.step();
    }
    a.take();
    b.take();
  }
  diff.common_steps = std::ssize(common);
  compare_hashes(first, second, diff);
  for (const std::int64_t step : common) {
    if (!diff.step || step < *diff.step) diff.equal = step;
  }
  diff.settings = differing_settings({first, second});
  return diff;
}

void print_diff(const RunDiff& diff, std::ostream& out) {
  out << "A  " << printable(diff.first) << "\nB  " << printable(diff.second) << '\n';
  if (!diff.step) {
    out << "the same in all " << diff.common_steps << " steps and " << diff.common_hashes
        << " parameter hashes that both have\n";
  } else {
    out << "first difference at step " << *diff.step;
    if (diff.equal) out << ", the last equal one is " << *diff.equal;
    out << ": " << likely_cause(diff) << "\n\n";
    Table table({"at step " + std::to_string(*diff.step), "A", "B"});
    for (const RunDiff::Field& field : diff.fields) {
      table.add({std::string(spell(field.field)), field.first, field.second});
    }
    table.print(out);
  }
  if (diff.settings.empty()) {
    out << "config, program, data and machine are the same\n";
    return;
  }
  out << '\n';
  Table table({"differs", "A", "B"});
  for (const auto& setting : diff.settings) {
    table.add({setting.first, setting.second[0], setting.second[1]});
  }
  table.print(out);
}

void fields(results::FieldVisitor& v, RunDiff& diff) {
  using Values = std::vector<std::string>;
  std::vector<std::pair<std::string, Values>> differing;
  for (const RunDiff::Field& field : diff.fields) {
    differing.emplace_back(spell(field.field), Values{field.first, field.second});
  }
  v.event("diff");
  v("first", diff.first, "The first run, as the user named it.");
  v("second", diff.second, "The second run.");
  v("common_steps", diff.common_steps, results::kSteps, "Steps that both ledgers have.");
  v("common_hashes", diff.common_hashes, "Steps whose parameters both hashed.");
  v("step", diff.step, results::kSteps, "The first step that differs; null if none does.");
  v.derived("fields", differing, "The values of both that differ there.");
  v("settings", diff.settings, "The values of both, by key, of configs and origins that differ.");
}

}  // namespace trainer::commands
