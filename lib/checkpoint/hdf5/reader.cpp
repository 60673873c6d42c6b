#include "checkpoint/hdf5/reader.h"

#include <algorithm>

#include "checkpoint/hdf5/numbers.h"

namespace trainer::checkpoint::hdf5 {
namespace {

// The entry of a list that is sorted by name, or null.
template <class Named>
const Named* entry(const std::vector<Named>& all, std::string_view name) {
  const auto at = std::ranges::lower_bound(all, name, {}, &Named::first);
  return at != all.end() && at->first == name ? &*at : nullptr;
}

}  // namespace

Reader::Reader(std::string path, View bytes, Content content)
    : content_(content), input_(std::move(path), bytes), root_(root_address(input_)) {
  object_at(root_);
}

const Object& Reader::object_at(std::uint64_t address) {
  const auto known = objects_.find(address);
  if (known != objects_.end()) return known->second;
  return objects_.emplace(address, read_object(input_, address)).first->second;
}

std::uint64_t Reader::find(const std::string& path) {
  std::uint64_t address = root_;
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    if (name.empty()) continue;
    const Link* link = entry(object_at(address).links, name);
    if (link == nullptr) return kUndefined;
    address = link->second;
  }
  return address;
}

std::uint64_t Reader::address(const std::string& object) {
  const std::uint64_t address = find(object);
  if (address == kUndefined) fail("has no '" + object + "': the file is damaged");
  return address;
}

const Object& Reader::object(const std::string& path) { return object_at(address(path)); }

bool Reader::exists(const std::string& name) { return find(name) != kUndefined; }

Reader::Children Reader::children(const std::string& group) {
  Children children;
  for (const auto& [name, address] : object(group).links) {
    const Object& child = object_at(address);
    if (child.is_group()) children.groups.push_back(input_.copied(name));
    if (child.is_dataset()) children.datasets.push_back(input_.copied(name));
  }
  return children;
}

bool Reader::has_texts(const std::string& object_path, const std::string& attribute) {
  const Object& owner = object(object_path);
  return entry(owner.attributes, attribute) != nullptr ||
         entry(owner.attributes, attribute + '0') != nullptr;
}

std::vector<std::string> Reader::texts(const std::string& object_path,
                                       const std::string& attribute) {
  const Object& owner = object(object_path);
  std::vector<std::string> all;
  const auto append = [&](const std::string& name) {
    const auto* found = entry(owner.attributes, name);
    if (found == nullptr) return false;
    for (std::string& text : read_texts(input_, heap_, found->second, object_path + '@' + name)) {
      all.push_back(std::move(text));
    }
    return true;
  };
  if (append(attribute)) return all;
  for (int piece = 0; append(concat(attribute, piece)); ++piece) {
  }
  return all;
}

Tensor Reader::tensor(const std::string& dataset, const std::string& name) {
  return read_numbers(input_, object(dataset), dataset, name, content_);
}

}  // namespace trainer::checkpoint::hdf5
