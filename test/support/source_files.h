// Paths of files of the source tree. Only source_files.cpp has the place of the tree, so that the
// objects of all other tests are the same in each clone.
#pragma once

#include <string>
#include <string_view>

namespace trainer::test {

// Path of `name` below the top of the project; "" for the top itself.
std::string source_file(std::string_view name);

}  // namespace trainer::test
