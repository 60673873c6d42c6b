// Files that build on others. `extends: FILE` takes over all that FILE gives, which the file's own
// keys then replace: maps key by key, lists and single values as a whole. Top-level keys that begin
// with "x-" are left out of the config; they hold what anchors of YAML refer to.
// Reasons: lib/decisions/config.md#a-config-extends-another-as-a-tree.
#pragma once

#include <string>
#include <vector>

#include "config/yaml/tree.h"

namespace trainer::config {

// The tree of a config that a file records, which to_yaml() wrote: `$$` is a dollar. `extends` and
// variables are reported to `diagnostics` and not followed. Opens no file.
Node read_recorded_tree(const std::string& text, const std::string& file,
                        std::vector<Diagnostic>& diagnostics);

// The tree of `text` with everything that it extends; `file` is used in messages, and the paths of
// extended files count from its folder. Variables are replaced. Mistakes go to `diagnostics`; a
// syntax error gives an empty tree.
Node read_tree(const std::string& text, const std::string& file, const Environment& environment,
               std::vector<Diagnostic>& diagnostics);

}  // namespace trainer::config
