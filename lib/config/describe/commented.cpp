#include "config/describe/commented.h"

#include "config/describe/emit.h"
#include "config/describe/schema.h"

namespace trainer::config {
namespace {

bool is_list_of_maps(const Node& node) {
  return node.kind == Node::Kind::kList && !node.items.empty() &&
         node.items.front().kind == Node::Kind::kMap;
}

// `schema` describes the map; it is null for a map that has no schema.
void print_map(const Node& map, const Schema* schema, const std::string& indent, std::string& out) {
  for (const Entry& entry : map.entries) {
    const Field* field = schema != nullptr ? schema->find(entry.key) : nullptr;
    if (field != nullptr && !field->help.empty()) out += indent + "# " + field->help + "\n";
    out += indent + print_key(entry.key) + ":";
    const bool is_map = entry.value.kind == Node::Kind::kMap && !entry.value.entries.empty();
    if (is_map) {
      out += '\n';
      print_map(entry.value, field != nullptr ? &field->schema : nullptr, indent + "  ", out);
    } else if (is_list_of_maps(entry.value)) {
      out += '\n';
      for (const Node& item : entry.value.items) out += indent + "  - " + print_flow(item) + '\n';
    } else {
      out += ' ' + print_flow(entry.value) + '\n';
    }
  }
}

}  // namespace

std::string commented_yaml(const Config& config) {
  std::string out;
  print_map(emit_config(config), &config_schema(), "", out);
  return out;
}

}  // namespace trainer::config
