// The classes that the labels of a list of images name: a csv's, or those of shards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::data {

// Throws an error for the item `place` of a list.
using FailAt = std::function<void(std::size_t place, const std::string& why)>;

// Returns the parts of a cell with several labels, without blanks around them and without empty
// parts.
std::vector<std::string> split_label(const std::string& label, char separator);

// Calls fail(place in the list, why) for a label that consists of several labels: "a|b", "a;b",
// "a,b" or "a b", whose parts are also labels or parts of other labels.
void reject_several_labels(const std::vector<std::string>& labels, const FailAt& fail);

// Sorts class names. kText: by their bytes. kNumber: by value; calls `fail` with the place of a
// name that is not a number or is the same number as another.
std::vector<std::string> sort_classes(const std::vector<std::string>& names,
                                      config::ClassOrder order, const FailAt& fail);

// Returns the order of classes without data.class_order: kNumber if all labels are numbers.
config::ClassOrder choose_order(const std::vector<std::string>& labels);

// Returns the class names of a list. kText: the labels, sorted by their bytes. kNumber: the labels,
// sorted by value; if all are whole numbers (1, or 1.0 as pandas writes it beside missing values),
// the classes are 0, 1, ... to the largest. Without an order, that of choose_order(). Calls `fail`
// with the place of a label that is not a number or is the same number as another, and of a number
// that would make more classes than the list can have.
std::vector<std::string> find_classes(const std::vector<std::string>& labels,
                                      std::optional<config::ClassOrder> order, const FailAt& fail);

// Finds the classes that the labels of a list denote.
class LabelIndex {
 public:
  // `classes` must outlive it.
  explicit LabelIndex(const std::vector<std::string>& classes);

  // Returns the number of the class that a label denotes by its name or its number. Calls fail(why)
  // for a label that is not a class.
  std::int32_t find(const std::string& label,
                    const std::function<void(const std::string&)>& fail) const;

 private:
  const std::vector<std::string>& classes_;
  std::map<std::string, std::int32_t> indices_;  // see map_class_names()
  // A number is the position of a class, unless classes have numbers as names.
  bool has_positions_;
};

}  // namespace trainer::data
