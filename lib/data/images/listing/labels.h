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
std::vector<std::string> classes_of(
    const std::vector<std::string>& labels,
    const std::function<void(std::size_t, const std::string&)>& fail);

// By class name, its number.
std::map<std::string, std::int32_t> indices_of(const std::vector<std::string>& classes);

// The class that a label names: by its name, or its number. Calls fail(why) for one that names
// none.
std::int32_t class_of(const std::string& label, const std::map<std::string, std::int32_t>& indices,
                      const std::vector<std::string>& classes,
                      const std::function<void(const std::string&)>& fail);

}  // namespace trainer::data
