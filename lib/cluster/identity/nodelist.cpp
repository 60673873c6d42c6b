#include <charconv>

#include "base/text.h"
#include "cluster/identity/sources.h"

namespace trainer::cluster {
namespace {

// "007" to 7; throws on anything else.
std::size_t number(std::string_view digits, std::string_view list) {
  const std::int64_t value = parse_integer(digits).value_or(-1);
  if (value >= 0) return static_cast<std::size_t>(value);
  wrong("host list", concat("'", list, "': expected a number or a range, found '", digits, "'"));
}

// What stands in brackets, "1-3,07", as the texts "1", "2", "3", "07".
std::vector<std::string> expand_ranges(std::string_view ranges, std::string_view list) {
  constexpr std::size_t kMaxNames = 1'000'000;
  std::vector<std::string> texts;
  while (true) {
    const std::size_t comma = ranges.find(',');
    const std::string_view range = ranges.substr(0, comma);
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::size_t first = number(low, list);
    const std::size_t last =
        dash == std::string_view::npos ? first : number(range.substr(dash + 1), list);
    if (last < first || last - first >= kMaxNames) {
      wrong("host list", concat("'", list, "': the range ", range, " is empty or too long"));
    }
    for (std::size_t i = first; i <= last; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
      texts.push_back(std::move(digits));
    }
    if (comma == std::string_view::npos) return texts;
    ranges.remove_prefix(comma + 1);
  }
}

// One entry of the list: text with any number of brackets.
std::vector<std::string> expand_entry(std::string_view entry, std::string_view list) {
  std::vector<std::string> names{""};
  while (!entry.empty()) {
    const std::size_t open = entry.find('[');
    for (std::string& name : names) name += entry.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = entry.find(']', open);
    if (close == std::string_view::npos) {
      wrong("host list", concat("'", list, "': a '[' has no ']'"));
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& text :
           expand_ranges(entry.substr(open + 1, close - open - 1), list)) {
        longer.push_back(name + text);
      }
    }
    names = std::move(longer);
    entry.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_nodelist(std::string_view text) {
  std::vector<std::string> hosts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (i == start) wrong("host list", concat("'", text, "': a host name is missing"));
    for (std::string& host : expand_entry(text.substr(start, i - start), text)) {
      hosts.push_back(std::move(host));
    }
    start = i + 1;
  }
  return hosts;
}

std::optional<int> tasks_of_node(std::string_view list, int node) {
  int hosts = 0;  // those of the entries so far
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    const auto take = [&entry]() -> std::optional<int> {
      int value = 0;
      const auto [end, failure] = std::from_chars(entry.data(), entry.data() + entry.size(), value);
      if (failure != std::errc{} || value < 1) return {};
      entry.remove_prefix(end - entry.data());
      return value;
    };
    const std::optional<int> tasks = take();
    std::optional<int> times = 1;
    if (tasks && entry.starts_with("(x") && entry.ends_with(")")) {
      entry = entry.substr(2, entry.size() - 3);
      times = take();
    }
    if (!tasks || !times || !entry.empty() || *times > 1'000'000) return {};
    if (node < hosts + *times) return tasks;
    hosts += *times;
  }
  return {};
}

}  // namespace trainer::cluster
