#include "config/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "config/hints.h"

namespace trainer::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string format(double value) {
  char buffer[40];
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  const auto end = whole ? std::to_chars(buffer, buffer + sizeof buffer, std::int64_t(value))
                         : std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end.ptr);
  // YAML 1.1 readers take "1e-05" for a text; all readers take "1.0e-05" for a number.
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

std::string check_range(const Node& node, double value, const Rule& rule) {
  const bool low = rule.low_open ? value > rule.low : value >= rule.low;
  const bool high = rule.high_open ? value < rule.high : value <= rule.high;
  if (value > rule.limit) {
    return "must be at most " + format(rule.limit) + "; found " + describe(node);
  }
  if (low && high) return "";
  return "must be " + range_text(rule) + "; found " + describe(node);
}

std::string_view unsigned_part(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

// Returns why a text that is probably meant as a number is not a number; "" if that is unknown.
std::string number_hint(const Node& node) {
  if (node.kind != Node::Kind::kScalar) return "";
  std::string_view text = node.text;
  if (node.quoted) return ": a number is written without quotes";
  if (text.find('_') != std::string_view::npos || text.find(',') != std::string_view::npos) {
    return ": write the digits without separators";
  }
  text = unsigned_part(text);
  if (text.size() < 2 || text[0] != '0') return "";
  if (is_digit(text[1])) {
    return ": leading zeros are not allowed, since YAML 1.1 reads such numbers as octal";
  }
  return std::string("xXoObB").find(text[1]) != std::string::npos ? ": numbers are decimal" : "";
}

bool is_word(const Node& node, const char* word) {
  return node.kind == Node::Kind::kScalar && node.text == word;
}

// Returns the error of a node that is none of the values in the text `what`. `words` are those of
// them that are written as words.
std::string expected(const Node& node, const std::string& what,
                     const std::vector<std::string>& words = {}) {
  const std::string text = concat("expected ", what, ", found ", describe(node));
  return node.kind == Node::Kind::kScalar ? text + suggestion(node.text, words) : text;
}

// from_chars also takes "inf", "nan" and leading zeros.
bool looks_decimal(const Node& node) {
  if (node.kind != Node::Kind::kScalar || node.quoted) return false;
  const std::string_view text = unsigned_part(node.text);
  if (text.empty() || !(is_digit(text[0]) || text[0] == '.')) return false;
  return !(text.size() > 1 && text[0] == '0' && is_digit(text[1]));
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size();
}

template <class T>
std::string read_integer(const Node& node, T& value, const Rule& rule) {
  const std::string_view digits = unsigned_part(node.text);
  T parsed{};
  if (looks_decimal(node) && std::ranges::all_of(digits, is_digit)) {
    if (!parse_number(node.text, parsed)) {
      const bool negative = node.text[0] == '-' && !std::is_signed_v<T>;
      return negative ? "must be at least 0; found " + describe(node)
                      : "the number " + node.text + " is too large";
    }
    const std::string wrong = check_range(node, static_cast<double>(parsed), rule);
    if (wrong.empty()) value = parsed;
    return wrong;
  }
  return expected(node, "a whole number") + number_hint(node);
}

// Reads `count` numbers of a list. Errors of an item name its index.
std::string read_list(const Node& node, std::int64_t* values, std::size_t count, const Rule& rule) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string wrong = read(node.items[i], values[i], rule);
    if (!wrong.empty()) return concat("entry ", i, ": ", wrong);
  }
  return "";
}

Node write_list(const std::int64_t* values, std::size_t count) {
  Node node;
  node.kind = Node::Kind::kList;
  for (std::size_t i = 0; i < count; ++i) node.items.push_back(write(values[i]));
  return node;
}

// Returns the number of insertions, deletions, substitutions and swaps of neighbours.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1,
                             cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string range_text(const Rule& rule) {
  std::string text;
  if (std::isfinite(rule.low)) {
    text = (rule.low_open ? "greater than " : "at least ") + write(rule.low).text;
  }
  if (std::isfinite(rule.high)) {
    text += text.empty() ? "" : " and ";
    text += (rule.high_open ? "less than " : "at most ") + write(rule.high).text;
  }
  return text;
}

std::string to_string(const Duration& duration) {
  static const char* const kUnits[] = {"step", "epoch", "second"};
  const std::string unit = kUnits[static_cast<int>(duration.unit)];
  return format(duration.count) + ' ' + unit + (duration.count == 1 ? "" : "s");
}

std::string read(const Node& node, bool& value, const Rule&) {
  const bool plain = node.kind == Node::Kind::kScalar && !node.quoted;
  for (const bool truth : {false, true}) {
    const char* const name = truth ? "true" : "false";
    const char* const capital = truth ? "True" : "False";
    if (plain && (node.text == name || node.text == capital)) {
      value = truth;
      return "";
    }
  }
  return expected(node, "true or false");
}

std::string read(const Node& node, std::int64_t& value, const Rule& rule) {
  return read_integer(node, value, rule);
}

std::string read(const Node& node, std::uint64_t& value, const Rule& rule) {
  return read_integer(node, value, rule);
}

std::string read(const Node& node, double& value, const Rule& rule) {
  double parsed = 0;
  if (!looks_decimal(node) || !parse_number(node.text, parsed) || !std::isfinite(parsed)) {
    return expected(node, "a number") + number_hint(node);
  }
  const std::string wrong = check_range(node, parsed, rule);
  if (wrong.empty()) value = parsed;
  return wrong;
}

std::string read(const Node& node, std::string& value, const Rule&) {
  if (node.kind != Node::Kind::kScalar) return expected(node, "a text");
  value = node.text;
  return "";
}

std::string read(const Node& node, Duration& value, const Rule& rule) {
  static constexpr Spelling<Duration::Unit> kUnits[] = {
      {Duration::Unit::kSteps, "steps"},     {Duration::Unit::kSteps, "step"},
      {Duration::Unit::kEpochs, "epochs"},   {Duration::Unit::kEpochs, "epoch"},
      {Duration::Unit::kSeconds, "seconds"}, {Duration::Unit::kSeconds, "second"}};
  const std::string wrong =
      expected(node, concat("a duration such as '100 steps'",
                            rule.seconds ? ", '1 epoch' or '30 seconds'" : " or '1 epoch'"));
  if (node.kind != Node::Kind::kScalar) return wrong;
  const std::size_t space = node.text.find(' ');
  const std::size_t word = node.text.find_first_not_of(' ', space);
  Node number = scalar_node(node.text.substr(0, space));
  Duration parsed;
  if (!read(number, parsed.count, any()).empty()) return wrong;
  if (word == std::string::npos) return wrong + ": the unit is missing";
  const std::string unit = node.text.substr(word);
  for (const auto& [kind, name] : kUnits) {
    if (unit != name) continue;
    parsed.unit = kind;
    if (kind == Duration::Unit::kSeconds && !rule.seconds) return wrong;
    if (parsed.count <= 0) return "must be greater than 0; found " + describe(node);
    if (kind == Duration::Unit::kSteps && parsed.count != std::floor(parsed.count)) {
      return "expected a whole number of steps, found " + describe(node);
    }
    value = parsed;
    return "";
  }
  return wrong + suggestion(unit, rule.seconds
                                      ? std::vector<std::string>{"steps", "epochs", "seconds"}
                                      : std::vector<std::string>{"steps", "epochs"});
}

std::string read(const Node& node, Pair& value, const Rule& rule) {
  Pair parsed;
  std::string wrong;
  if (node.kind == Node::Kind::kList && node.items.size() == 2) {
    std::int64_t both[2] = {};
    wrong = read_list(node, both, 2, rule);
    parsed = {both[0], both[1]};
  } else if (node.kind == Node::Kind::kScalar) {
    wrong = read(node, parsed.height, rule);
    parsed.width = parsed.height;
  } else {
    const std::string size =
        node.kind == Node::Kind::kList ? concat(" of ", node.items.size()) : "";
    return expected(node, "a whole number or [height, width]") + size;
  }
  if (wrong.empty()) value = parsed;
  return wrong;
}

std::string read(const Node& node, Padding& value, const Rule& rule) {
  Padding parsed;
  if (node.kind == Node::Kind::kList && node.items.size() == 4) {
    parsed.kind = Padding::Kind::kExplicit;
    const std::string wrong = read_list(node, parsed.pixels.data(), 4, rule);
    if (wrong.empty()) value = parsed;
    return wrong;
  }
  if (is_word(node, "valid") || is_word(node, "same")) {
    parsed.kind = node.text == "same" ? Padding::Kind::kSame : Padding::Kind::kValid;
    value = parsed;
    return "";
  }
  return expected(node, "valid, same or [top, bottom, left, right] in pixels", {"valid", "same"});
}

std::string read(const Node& node, std::array<std::int64_t, 4>& value, const Rule& rule) {
  std::array<std::int64_t, 4> parsed{};
  std::string wrong;
  if (node.kind == Node::Kind::kScalar) {
    wrong = read(node, parsed[0], rule);
    parsed.fill(parsed[0]);
  } else if (node.kind == Node::Kind::kList && node.items.size() == 4) {
    wrong = read_list(node, parsed.data(), 4, rule);
  } else {
    return expected(node, "a whole number or [top, bottom, left, right]");
  }
  if (wrong.empty()) value = parsed;
  return wrong;
}

// A text from the environment or from an older config is in quotes.
std::string read(const Node& node, Gpus& value, const Rule& rule) {
  Gpus parsed;
  std::string wrong;
  if (is_word(node, "all")) {
    parsed.kind = Gpus::Kind::kAll;
  } else if (node.kind == Node::Kind::kScalar) {
    Node number = node;
    number.quoted = false;
    parsed.kind = Gpus::Kind::kCount;
    if (!looks_decimal(number)) {
      return expected(node, "a number of GPUs, all or a list of indices such as [0, 2]", {"all"});
    }
    wrong = read(number, parsed.count, within(0, kMaxReplicas));
  } else if (node.kind == Node::Kind::kList && !node.items.empty() &&
             node.items.size() <= kMaxReplicas) {
    parsed.kind = Gpus::Kind::kIndices;
    parsed.indices.resize(node.items.size());
    wrong = read_list(node, parsed.indices.data(), parsed.indices.size(), rule);
  } else {
    const std::string size =
        node.kind == Node::Kind::kList ? concat(" of ", node.items.size()) : "";
    return expected(node,
                    concat("a number of GPUs, all or a list of 1 to ", kMaxReplicas, " indices")) +
           size;
  }
  if (wrong.empty()) value = parsed;
  return wrong;
}

std::string read(const Node& node, LossScale& value, const Rule& rule) {
  LossScale parsed;
  const bool dynamic = is_word(node, "dynamic");
  if (!dynamic && !looks_decimal(node)) {
    return expected(node, "dynamic or a number", {"dynamic"});
  }
  const std::string wrong = dynamic ? "" : read(node, parsed.fixed.emplace(), rule);
  if (wrong.empty()) value = parsed;
  return wrong;
}

std::string read(const Node& node, BatchSize& value, const Rule& rule) {
  if (is_word(node, "auto")) {
    value = BatchSize::automatic();
    return "";
  }
  if (!looks_decimal(node)) return expected(node, "auto or a whole number", {"auto"});
  std::int64_t samples = 0;
  const std::string wrong = read(node, samples, rule);
  if (wrong.empty()) value = samples;
  return wrong;
}

std::string read(const Node& node, ClusterSize& value, const Rule& rule) {
  if (is_word(node, "true")) {
    value = {};
    return "";
  }
  if (!looks_decimal(node)) return expected(node, "true or a whole number", {"true"});
  return read(node, value.count, rule);
}

std::string read(const Node& node, ValueRange& value, const Rule& rule) {
  if (is_word(node, "auto")) {
    value = {.is_automatic = true};
    return "";
  }
  if (node.kind != Node::Kind::kList || node.items.size() != 2) {
    return expected(node, "auto or [low, high]", {"auto"});
  }
  std::int64_t both[2] = {};
  const std::string wrong = read_list(node, both, 2, rule);
  if (!wrong.empty()) return wrong;
  if (both[0] >= both[1]) return concat("low, ", both[0], ", must be less than high, ", both[1]);
  value = {false, both[0], both[1]};
  return "";
}

std::string read(const Node& node, ParameterPattern& value, const Rule& rule) {
  value.loc = node.loc;
  return read(node, value.text, rule);
}

std::string read(const Node& node, ClassWeight& value, const Rule& rule) {
  ClassWeight parsed;
  parsed.loc = node.loc;
  if (is_word(node, "balanced")) {
    parsed.balanced = true;
    value = parsed;
    return "";
  }
  if (node.kind != Node::Kind::kMap || node.entries.empty()) {
    return expected(node, "balanced or a map of classes to weights such as {cat: 1, dog: 2.5}",
                    {"balanced"});
  }
  for (const Entry& entry : node.entries) {
    double weight = 0;
    if (const std::string wrong = read(entry.value, weight, rule); !wrong.empty()) {
      return concat("'", entry.key, "': ", wrong);
    }
    parsed.weights.emplace_back(entry.key, weight);
  }
  value = parsed;
  return "";
}

void BatchSize::fail() {
  throw ConfigError({},
                    "train.batch_size: auto is found by trainer train, plan, benchmark and "
                    "verify alone; give a number");
}

Node write(bool value) { return scalar_node(value ? "true" : "false"); }
Node write(std::int64_t value) { return scalar_node(concat(value)); }
Node write(std::uint64_t value) { return scalar_node(concat(value)); }
Node write(double value) { return scalar_node(format(value)); }
Node write(const std::string& value) { return scalar_node(value, true); }
Node write(const Duration& value) { return scalar_node(to_string(value)); }
Node write(const Padding& value) {
  if (value.kind == Padding::Kind::kExplicit) return write(value.pixels);
  return scalar_node(value.kind == Padding::Kind::kSame ? "same" : "valid");
}
Node write(const Pair& value) {
  if (value.height == value.width) return write(value.height);
  const std::int64_t both[2] = {value.height, value.width};
  return write_list(both, 2);
}
Node write(const std::array<std::int64_t, 4>& value) { return write_list(value.data(), 4); }
Node write(const Gpus& value) {
  switch (value.kind) {
    case Gpus::Kind::kAll:
      return scalar_node("all");
    case Gpus::Kind::kCount:
      return write(value.count);
    case Gpus::Kind::kIndices:
      return write_list(value.indices.data(), value.indices.size());
  }
  return {};
}
Node write(const LossScale& value) {
  return value.fixed ? write(*value.fixed) : scalar_node("dynamic");
}
Node write(const ParameterPattern& value) { return write(value.text); }
// make_rounds() replaces the key before values are read.
std::string read(const Node&, LoopValues&, const Rule&) { return ""; }
Node write(const LoopValues&) { return {}; }
Node write(const ClassWeight& value) {
  if (value.balanced) return scalar_node("balanced");
  Node map;
  map.kind = Node::Kind::kMap;
  for (const auto& [name, weight] : value.weights) {
    Entry& entry = map.entries.emplace_back();
    entry.key = name;
    entry.value = write(weight);
  }
  return map;
}
Node write(const ValueRange& value) {
  const std::int64_t both[2] = {value.low, value.high};
  return value.is_automatic ? scalar_node("auto") : write_list(both, 2);
}
Node write(const BatchSize& value) {
  return value.is_automatic() ? scalar_node("auto") : write(static_cast<std::int64_t>(value));
}

Node write(const ClusterSize& value) {
  return value.count == 0 ? scalar_node("true") : write(value.count);
}

std::optional<std::string> nearest(const std::string& typed,
                                   const std::vector<std::string>& words) {
  std::optional<std::string> best;
  if (typed.size() > 100) return best;
  std::size_t limit = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& word : words) {
    const std::size_t steps = distance(typed, word);
    // A word of few letters is close to every other word.
    if (steps < limit && steps < word.size()) {
      best = word;
      limit = steps;
    }
  }
  if (best || typed.size() < 4) return best;
  // "cross_entropy" is the end of "softmax_cross_entropy", and "accuracy" of several metrics, of
  // which "validation/accuracy" is the shortest.
  for (const std::string& word : words) {
    const bool is_end = word.ends_with('_' + typed) || word.ends_with('/' + typed);
    if (is_end && (!best || word.size() < best->size())) best = word;
  }
  return best;
}

std::string hint_for_format(const std::string& word) {
  if (word != "parquet") return "";
  return "Parquet files are not read: Debian has no library for them. Make tar shards of them, "
         "which format: webdataset reads, with the six lines of Python in "
         "configs/guide_own_images.md";
}

std::string suggestion(const std::string& typed, const std::vector<std::string>& words) {
  const std::optional<std::string> word = nearest(typed, words);
  return word ? ", did you mean '" + *word + "'?" : "";
}

std::string unknown(const std::string& what, const std::string& word, const std::string& intro,
                    const std::vector<std::string>& words) {
  const std::string guess = suggestion(word, words);
  return concat("unknown ", what, " '", word, "'", guess.empty() ? "." : guess, " ", intro, ": ",
                join(words));
}

std::string unknown_key(const std::string& key, const std::string& path,
                        const std::vector<std::string>& allowed) {
  if (allowed.empty()) return concat("unknown key '", key, "'. No keys are allowed in ", path);
  const std::string intro = path.empty() ? "Allowed" : "Allowed in " + path;
  const std::string place = nearest(key, allowed) ? "" : place_hint(key, path);
  if (place.empty()) return unknown("key", key, intro, allowed);
  return concat("unknown key '", key, "'", place, ' ', intro, ": ", join(allowed));
}

}  // namespace trainer::config
