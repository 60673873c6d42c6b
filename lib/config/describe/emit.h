// Structs -> tree.
#pragma once

#include "config/fields.h"
#include "config/values.h"

namespace trainer::config {

class MapWriter {
 public:
  template <class T>
  void operator()(const char* key, T& value, const char*, const Rule&) {
    add(key, emit(value));
  }
  // An empty layer list would count as given beside a dense_classifier.
  void operator()(const char* key, std::vector<Layer>& layers, const char*, const Rule&) {
    if (!layers.empty()) add(key, emit(layers));
  }
  template <class Activate, class List>
  void alternative(std::string_view name, const char*, bool active, Activate, List list) {
    if (!active) return;
    MapWriter inner;
    list(inner);
    add(name, inner.take());
  }
  void group(const std::vector<std::string>&, bool) {}
  void choice(const char*, bool, Resume = Resume::kWarn) {}
  void shorthand(const char*) {}
  void definition(const char*) {}
  void located(const SourceLoc&) {}

  Node take() {
    node_.kind = Node::Kind::kMap;
    return std::move(node_);
  }

  template <class T>
  static Node emit(T& value) {
    if constexpr (requires { write(value); }) {
      return write(value);
    } else {
      MapWriter writer;
      fields(writer, value);
      return writer.take();
    }
  }
  // An initializer without numbers is its name alone.
  static Node emit(Initializer& value) {
    MapWriter writer;
    fields(writer, value);
    Node node = writer.take();
    const Entry& entry = node.entries.front();
    return entry.value.entries.empty() ? scalar_node(entry.key) : node;
  }
  template <class T>
  static Node emit(std::optional<T>& value) {
    return value ? emit(*value) : Node{};
  }
  template <class T>
  static Node emit(std::vector<T>& values) {
    Node node;
    node.kind = Node::Kind::kList;
    for (T& value : values) node.items.push_back(emit(value));
    return node;
  }

 private:
  void add(std::string_view key, Node value) {
    node_.entries.push_back({std::string(key), {}, std::move(value)});
  }
  Node node_;
};

}  // namespace trainer::config
