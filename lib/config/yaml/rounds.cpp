#include "config/yaml/rounds.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "config/rule.h"
#include "config/values.h"

namespace trainer::config {
namespace {

// More values than the largest model has. Rounds inside rounds would exhaust the memory.
constexpr std::size_t kMaxNodesOfRounds = 1'000'000;

struct Variable {
  const Node* value;
  bool* is_used;
};
using Variables = std::map<std::string, Variable>;  // by name

// Returns the name of a variable whose value the text stands for: "size" of "$size"; else "".
std::string variable_name(const Node& node) {
  if (node.kind != Node::Kind::kScalar || !node.text.starts_with('$')) return "";
  const std::string name = node.text.substr(1);
  return is_name(name) ? name : "";
}

std::size_t count_nodes(const Node& node) {
  std::size_t count = 1;
  for (const Node& item : node.items) count += count_nodes(item);
  for (const Entry& entry : node.entries) count += count_nodes(entry.value);
  return count;
}

Node make_map(const std::string& key, const SourceLoc& loc, Node value) {
  Node map;
  map.kind = Node::Kind::kMap;
  map.loc = loc;
  map.entries.push_back({key, loc, std::move(value)});
  return map;
}

class RoundMaker {
 public:
  // Replaces the repetitions below a node, and the variables that are in scope.
  void walk(Node& node, const Variables& scope) {
    if (!scope.empty()) replace_variable(node, scope);
    for (Node& item : node.items) walk(item, scope);
    for (Entry& entry : node.entries) {
      if (entry.key == "repeat" && entry.value.find("over") != nullptr) {
        replace(entry.value, scope);
        has_replaced_ = true;
      } else {
        walk(entry.value, scope);
      }
    }
  }

  bool has_replaced() const { return has_replaced_; }

 private:
  void replace_variable(Node& node, const Variables& scope) {
    const std::string name = variable_name(node);
    if (name.empty()) return;
    const auto found = scope.find(name);
    if (found == scope.end()) {
      std::vector<std::string> names;
      for (const auto& [known, variable] : scope) names.push_back("$" + known);
      has_unknown_ = true;
      node.failure = unknown("variable", node.text, "Those of repeat.over", names);
      return;
    }
    *found->second.is_used = true;
    Node value = *found->second.value;
    value.note += concat(" (used as $", name, " at ", to_string(node.loc), ")");
    node = std::move(value);
  }

  // Makes a repeat unusable; the message is reported at `loc`.
  static void fail(Node& repeat, SourceLoc loc, const std::string& message) {
    repeat = Node();
    repeat.loc = std::move(loc);
    repeat.failure = message;
  }

  // Returns the number of rounds; 0 after fail().
  static std::size_t check_variables(Node& repeat, const Node& over) {
    if (!over.failure.empty()) {
      fail(repeat, over.loc, over.failure);
      return 0;
    }
    if (over.kind != Node::Kind::kMap || over.entries.empty()) {
      fail(repeat, over.loc,
           concat("repeat.over: expected variables and their values, such as {size: [64, 128]}; "
                  "found ",
                  describe(over)));
      return 0;
    }
    const Entry& first = over.entries.front();
    for (const Entry& entry : over.entries) {
      const std::string path = "repeat.over." + entry.key;
      Node reference = scalar_node("$" + entry.key);
      if (variable_name(reference).empty()) {
        fail(
            repeat, entry.loc,
            concat(path, ": the name of a variable has letters, digits and _, and no digit first"));
        return 0;
      }
      const Node& values = entry.value;
      if (values.kind != Node::Kind::kList || values.items.empty()) {
        fail(repeat, values.loc,
             concat(path, ": expected a list with a value for each round, found ",
                    values.kind == Node::Kind::kList ? "an empty list" : describe(values)));
        return 0;
      }
      if (values.items.size() != first.value.items.size()) {
        fail(
            repeat, values.loc,
            concat(path, ": the list has length ", values.items.size(), ", but that of ", first.key,
                   " has length ", first.value.items.size(), "; give a value for each round"));
        return 0;
      }
    }
    return first.value.items.size();
  }

  void replace(Node& repeat, const Variables& scope) {
    for (const char* other : {"times", "rounds"}) {
      if (const Entry* given = repeat.find(other)) {
        return fail(repeat, given->loc,
                    concat("repeat: '", other,
                           "' and 'over' cannot both be given; choose one of: "
                           "times, over, rounds"));
      }
    }
    const SourceLoc loc = repeat.find("over")->loc;
    Node over = repeat.find("over")->value;
    if (!scope.empty()) walk(over, scope);
    const Entry* given = repeat.find("layers");
    if (given == nullptr || given->value.kind != Node::Kind::kList) {
      return fail(repeat, given == nullptr ? loc : given->value.loc,
                  "repeat.layers: expected a list with the layers of a round");
    }
    const Node layers = given->value;
    const std::size_t rounds = check_variables(repeat, over);
    if (rounds == 0) return;
    const bool many = rounds > static_cast<std::size_t>(kMaxRounds);
    copied_nodes_ += many ? 0 : rounds * count_nodes(layers);
    if (many || copied_nodes_ > kMaxNodesOfRounds) {
      return fail(repeat, loc, "repeat.over: these are too many rounds; make the model smaller");
    }
    std::map<std::string, bool> used;
    Node list;
    list.kind = Node::Kind::kList;
    list.loc = loc;
    for (std::size_t round = 0; round < rounds; ++round) {
      Variables variables = scope;
      for (const Entry& entry : over.entries) {
        variables[entry.key] = {&entry.value.items[round], &used[entry.key]};
      }
      Node copy = layers;
      walk(copy, variables);
      list.items.push_back(make_map("layers", loc, std::move(copy)));
    }
    for (const Entry& entry : over.entries) {
      if (used[entry.key] || has_unknown_) continue;  // the unknown one is a misspelling
      return fail(repeat, entry.loc,
                  concat("repeat.over.", entry.key, ": no layer uses $", entry.key,
                         "; write it in place of the value that differs, or remove it"));
    }
    std::erase_if(repeat.entries,
                  [](const Entry& entry) { return entry.key == "over" || entry.key == "layers"; });
    repeat.entries.push_back({"rounds", loc, std::move(list)});
  }

  std::size_t copied_nodes_ = 0;
  bool has_replaced_ = false;
  bool has_unknown_ = false;
};

// Removes "rounds[2]." wherever it follows "repeat.".
std::string without_rounds(std::string message) {
  static const std::string kStart = "repeat.rounds[";
  for (std::size_t at = 0; (at = message.find(kStart, at)) != std::string::npos;) {
    at += std::string("repeat.").size();
    const std::size_t end = message.find("].", at);
    if (end == std::string::npos) break;
    message.erase(at, end + 2 - at);
  }
  return message;
}

}  // namespace

bool make_rounds(Node& root) {
  RoundMaker maker;
  if (Entry* model = root.find("model")) maker.walk(model->value, {});
  return maker.has_replaced();
}

void join_rounds(std::vector<Diagnostic>& diagnostics) {
  std::set<std::tuple<std::string, int, int, std::string>> seen;
  std::erase_if(diagnostics, [&](Diagnostic& diagnostic) {
    diagnostic.message = without_rounds(std::move(diagnostic.message));
    const SourceLoc& loc = diagnostic.loc;
    return !seen.emplace(loc.file, loc.line, loc.column, diagnostic.message).second;
  });
}

}  // namespace trainer::config
