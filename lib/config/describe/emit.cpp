#include "config/describe/emit.h"

namespace trainer::config {
namespace {

using Leaves = std::vector<std::pair<std::string, std::string>>;

bool holds_maps(const Node& node) {
  return !node.items.empty() && node.items.front().kind == Node::Kind::kMap;
}

void collect(const Node& node, const std::string& path, Leaves& leaves) {
  if (node.kind == Node::Kind::kMap && !node.entries.empty()) {
    for (const Entry& entry : node.entries) {
      collect(entry.value, path.empty() ? entry.key : path + '.' + entry.key, leaves);
    }
  } else if (holds_maps(node)) {
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      collect(node.items[i], concat(path, '[', i, ']'), leaves);
    }
  } else {
    leaves.emplace_back(path, print_flow(node));
  }
}

Node tree_of(Config config) { return MapWriter::emit(config); }

}  // namespace

std::string to_yaml(const std::string& text) { return print_flow(scalar_node(text, true)); }

std::string to_yaml(const Config& config) { return print(tree_of(config)); }

std::vector<std::pair<std::string, std::string>> leaves(const Config& config) {
  Leaves leaves;
  collect(tree_of(config), "", leaves);
  return leaves;
}

}  // namespace trainer::config
