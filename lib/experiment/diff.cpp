#include "experiment/diff.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/formats/table.h"

namespace trainer::experiment {
namespace {

void check_ledger(const RunFiles& run) {
  if (!run.ledger.empty() || !run.parameters.empty()) return;
  throw DataError((run.folder / "ledger.csv").string(),
                  "has no step: the run was made with run.ledger: false, or by an older version");
}

// What differs between two rows of one step, causes before their effects.
std::vector<RunDiff::Field> differences(const LedgerRow& a, const LedgerRow& b) {
  std::vector<RunDiff::Field> fields;
  const auto check = [&](const char* name, const std::string& one, const std::string& other) {
    if (one != other) fields.push_back({name, one, other});
  };
  check("samples", std::to_string(a.samples), std::to_string(b.samples));
  if (!a.sample_ids.empty() && !b.sample_ids.empty()) {
    check("sample_ids", a.sample_ids, b.sample_ids);
  }
  check("learning_rate", a.learning_rate, b.learning_rate);
  check("loss", a.loss, b.loss);
  return fields;
}

// A hash is of the parameters after its step, so that it comes behind the step's own row.
void compare_hashes(const RunFiles& first, const RunFiles& second, RunDiff& diff) {
  for (const auto& [step, hash] : first.parameters) {
    const auto found = second.parameters.find(step);
    if (found == second.parameters.end()) continue;
    ++diff.common_hashes;
    if (found->second == hash || (diff.step && *diff.step < step)) continue;
    if (!diff.step || *diff.step > step) {
      diff.step = step;
      diff.fields.clear();
    }
    diff.fields.push_back({"parameters", hash, found->second});
  }
}

std::string likely_cause(const RunDiff& diff) {
  const std::string& field = diff.fields.front().name;
  if (field == "samples") return "the batches are of different sizes";
  if (field == "sample_ids") return "the steps trained on other samples: data, seed or shuffling";
  if (field == "learning_rate") return "the schedules differ";
  if (field == "parameters" && *diff.step == 0) return "the parameters differed from the start";
  return diff.settings.empty()
             ? "samples and learning rates were the same: the arithmetic was not, or a gradient"
             : "samples and learning rates were the same: look at what differs below";
}

}  // namespace

RunDiff diff(const RunFiles& first, const RunFiles& second) {
  check_ledger(first);
  check_ledger(second);
  RunDiff diff;
  diff.first = first.folder.string();
  diff.second = second.folder.string();
  std::map<std::int64_t, const LedgerRow*> other;
  for (const LedgerRow& row : second.ledger) other[row.step] = &row;
  for (const LedgerRow& row : first.ledger) {
    const auto found = other.find(row.step);
    if (found == other.end()) continue;
    ++diff.common_steps;
    if (diff.step) continue;
    diff.fields = differences(row, *found->second);
    if (!diff.fields.empty()) diff.step = row.step;
  }
  compare_hashes(first, second, diff);
  for (const LedgerRow& row : first.ledger) {
    const bool before = !diff.step || row.step < *diff.step;
    if (before && other.contains(row.step)) diff.equal = row.step;
  }
  diff.settings = differing_settings({first, second});
  return diff;
}

void print_diff(const RunDiff& diff, std::ostream& out) {
  out << "A  " << diff.first << "\nB  " << diff.second << '\n';
  if (!diff.step) {
    out << "the same in all " << diff.common_steps << " steps and " << diff.common_hashes
        << " parameter hashes that both have\n";
  } else {
    out << "first difference at step " << *diff.step;
    if (diff.equal) out << ", the last equal one is " << *diff.equal;
    out << ": " << likely_cause(diff) << "\n\n";
    Table table({"at step " + std::to_string(*diff.step), "A", "B"});
    for (const RunDiff::Field& field : diff.fields) {
      table.add({field.name, field.first, field.second});
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
    table.add({setting.key, setting.values[0], setting.values[1]});
  }
  table.print(out);
}

void print_diff_json(const RunDiff& diff, std::ostream& out) {
  nlohmann::ordered_json json{{"event", "diff"},
                              {"first", diff.first},
                              {"second", diff.second},
                              {"common_steps", diff.common_steps},
                              {"common_hashes", diff.common_hashes}};
  json["step"] = diff.step ? nlohmann::ordered_json(*diff.step) : nlohmann::ordered_json();
  json["fields"] = nlohmann::ordered_json::object();
  for (const auto& field : diff.fields) json["fields"][field.name] = {field.first, field.second};
  json["settings"] = nlohmann::ordered_json::object();
  for (const auto& setting : diff.settings) json["settings"][setting.key] = setting.values;
  write_event(out, json);
}

}  // namespace trainer::experiment
