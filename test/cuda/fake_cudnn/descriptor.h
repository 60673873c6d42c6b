// What a backend descriptor holds.
#pragma once

#include <cudnn.h>

#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace fake {

// What a call rejects, with the status that it returns.
struct Refusal : std::runtime_error {
  Refusal(cudnnStatus_t code, const std::string& why) : std::runtime_error(why), status(code) {}
  cudnnStatus_t status;
};
[[noreturn]] inline void refuse(const std::string& why) {
  throw Refusal(CUDNN_STATUS_BAD_PARAM, why);
}

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  bool finalized = false;
  struct Attribute {
    cudnnBackendAttributeType_t type{};
    std::vector<char> bytes;  // the bytes of values
    std::vector<std::shared_ptr<const Descriptor>> references;
  };
  std::map<cudnnBackendAttributeName_t, Attribute> attributes;

  bool has(cudnnBackendAttributeName_t name) const { return attributes.count(name) != 0; }

  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.bytes.size() / sizeof(T));
    if (!values.empty()) {
      std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
    }
    return values;
  }
  template <class T>
  T one(cudnnBackendAttributeName_t name, T otherwise) const {
    const std::vector<T> values = all<T>(name);
    return values.empty() ? otherwise : values[0];
  }
  // Null when the attribute is not set.
  const Descriptor* reference(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() || found->second.references.empty()
               ? nullptr
               : found->second.references[0].get();
  }
};

std::size_t size_of(cudnnBackendAttributeType_t type);  // bytes of one value

// Throws Refusal unless the descriptor may have this attribute with this many values of this type.
void check_attribute(const Descriptor& descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, std::int64_t count);
// Throws Refusal unless the attributes are complete and fit together.
void check_descriptor(const Descriptor& descriptor);

// Descriptors as text, with all that they refer to.
std::string to_text(const Descriptor& descriptor);
// Throws Refusal when the text is not one of to_text.
std::shared_ptr<const Descriptor> from_text(const std::string& text);

}  // namespace fake
