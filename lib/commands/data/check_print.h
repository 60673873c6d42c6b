// The output of `trainer data`.
#pragma once

#include <string>
#include <vector>

#include "data/check.h"
#include "data/check_arrays.h"
#include "results/field.h"

// What all splits have in common, as a line of JSON.
namespace trainer::results {
void fields(FieldVisitor& v, data::DataCheck& check);
void fields(FieldVisitor& v, data::ArrayCheck& check);
}  // namespace trainer::results

namespace trainer::commands {

// A split of images as a line of JSON.
struct ImageSplit {
  data::SplitCheck check;
  std::vector<std::string> classes;
};
void fields(results::FieldVisitor& v, ImageSplit& split);

// A split of arrays as a line of JSON.
struct ArraySplit {
  data::ArraySplitCheck check;
  std::vector<std::string> classes;
};
void fields(results::FieldVisitor& v, ArraySplit& split);

// Returns the report for people; names from outside are made printable.
std::string to_text(const data::DataCheck& check);
// Returns a line per split and one for all.
std::string to_json(const data::DataCheck& check);

std::string to_text(const data::ArrayCheck& check);
std::string to_json(const data::ArrayCheck& check);

}  // namespace trainer::commands
