// The classes that the labels of a list of images name: a csv's, or those of shards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trainer::data {

// Calls fail(place in the list, why) for a label that consists of several labels: "a|b", "a;b",
// "a,b" or "a b", whose parts are also labels or parts of other labels.
void reject_several_labels(const std::vector<std::string>& labels,
                           const std::function<void(std::size_t, const std::string&)>& fail);

// Returns the class names of a list: the labels, sorted as text, or by value if all are numbers. If
// all are whole numbers (1, or 1.0 as pandas writes it beside missing values), the classes are 0,
// 1, ... to the largest. Calls fail(place in the list, why) for a number that would make more
// classes than the list can have.
std::vector<std::string> find_classes(
    const std::vector<std::string>& labels,
    const std::function<void(std::size_t, const std::string&)>& fail);

// Returns the number of the class that a label denotes by its name or its number. `indices` is that
// of map_class_names(). Calls fail(why) for a label that is not a class.
std::int32_t find_label(const std::string& label,
                        const std::map<std::string, std::int32_t>& indices,
                        const std::vector<std::string>& classes,
                        const std::function<void(const std::string&)>& fail);

}  // namespace trainer::data
