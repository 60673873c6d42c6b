// Reads files that extend others. `extends: FILE` takes all values of FILE, which the file's own
// keys then replace: maps key by key, lists and single values as a whole. Top-level keys that begin
// with "x-" are not part of the config; they hold content for YAML anchors. Reasons:
// lib/decisions/config.md#a-config-extends-another-as-a-tree.
#pragma once

#include <string>
#include <vector>

#include "config/yaml/tree.h"

namespace trainer::config {

// Reads the tree of a config that to_yaml() wrote, in which `$$` is a dollar. Reports `extends` and
// variables to `diagnostics` and does not follow them. Opens no file.
Node read_recorded_tree(const std::string& text, const std::string& file,
                        std::vector<Diagnostic>& diagnostics);

// Reads the tree of `text` with everything that it extends. `file` is used in messages, and paths
// of extended files are relative to its folder. Replaces variables. Mistakes go to `diagnostics`; a
// syntax error gives an empty tree.
Node read_tree(const std::string& text, const std::string& file, const Environment& environment,
               std::vector<Diagnostic>& diagnostics);

}  // namespace trainer::config
