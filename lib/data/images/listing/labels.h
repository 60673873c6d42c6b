// The classes that the labels of a list of images name: a csv's, or those of shards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace trainer::data {

// Class names of a list: the labels, sorted, or 0, 1, ... when all are numbers. Calls fail(place in
// the list, why) for a number that would make more classes than the list can have.
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
