#include "config/yaml/tree.h"

namespace trainer::config {
namespace {

// Returns the value of ${reference}; `:-` means "when unset or empty", as in the shell.
std::string resolve(const std::string& reference, const Environment& environment, Node& node) {
  const std::size_t dash = reference.find(":-");
  const std::string name = reference.substr(0, dash);
  if (!is_name(name)) {
    node.failure = concat("'${", reference,
                          "}' is not ${NAME} or ${NAME:-default}; a literal '$' is written '$$'");
    return "";
  }
  const auto found = environment.find(name);
  const bool has_default = dash != std::string::npos;
  if (found != environment.end() && !(has_default && found->second.empty())) {
    if (node.origin == Origin::Kind::kFile) {
      node.origin = Origin::Kind::kEnvironment;
      node.variable = name;
    }
    return found->second;
  }
  if (!has_default) {
    node.failure = concat("the environment variable ", name, " is not set; set it, or write ${",
                          name, ":-default}");
    return "";
  }
  return reference.substr(dash + 2);
}

// Replaces $$ by a dollar and each ${reference} by what `resolve` returns for it.
template <class Resolve>
void replace_dollars(Node& node, const Resolve& resolve) {
  const std::string text = std::move(node.text);
  node.text.clear();
  bool replaced = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "$$") == 0) {
      node.text += '$';
      ++i;
    } else if (text.compare(i, 2, "${") == 0) {
      const std::size_t end = text.find('}', i);
      if (end == std::string::npos) {
        node.failure =
            concat("'", text.substr(i), "' has no closing '}'; a literal '$' is written '$$'");
        break;
      }
      node.text += resolve(text.substr(i + 2, end - i - 2), node);
      i = end;
      replaced = true;
    } else {
      node.text += text[i];
    }
  }
  // Inside [] and {} YAML requires quotes around ${...}, so that they do not make the value a text.
  if (replaced) node.quoted = false;
  if (!node.failure.empty()) node.text = text;
}

template <class Resolve>
void replace_in_tree(Node& node, const Resolve& resolve) {
  if (node.kind == Node::Kind::kScalar && node.text.find('$') != std::string::npos) {
    replace_dollars(node, resolve);
  }
  for (Node& item : node.items) replace_in_tree(item, resolve);
  for (Entry& entry : node.entries) replace_in_tree(entry.value, resolve);
}

}  // namespace

void substitute(Node& node, const Environment& environment) {
  replace_in_tree(node, [&](const std::string& reference, Node& scalar) {
    return resolve(reference, environment, scalar);
  });
}

void unescape(Node& node) {
  replace_in_tree(node, [](const std::string& reference, Node& scalar) {
    scalar.failure =
        concat("'${", reference,
               "}': the config that a file records cannot read the environment; give the value "
               "with --set");
    return std::string();
  });
}

}  // namespace trainer::config
