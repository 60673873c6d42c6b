// Descriptors as text: "type attributes { name type count hexadecimal-bytes references... }...".
#include <sstream>

#include "cuda/fake_cudnn/descriptor.h"

namespace fake {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

void write(const Descriptor& d, std::ostream& out) {
  out << d.type << ' ' << d.attributes.size() << ' ';
  for (const auto& [name, attribute] : d.attributes) {
    out << name << ' ' << attribute.type << ' ' << attribute.bytes.size() << ' '
        << attribute.references.size() << " x";
    for (const char byte : attribute.bytes) {
      const auto value = static_cast<unsigned char>(byte);
      out << kDigits[value / 16] << kDigits[value % 16];
    }
    out << ' ';
    for (const auto& reference : attribute.references) write(*reference, out);
  }
}

template <class T>
T read_number(std::istream& in) {
  std::int64_t value = 0;
  if (!(in >> value) || value < 0) refuse("a plan's text is damaged");
  return static_cast<T>(value);
}

std::shared_ptr<const Descriptor> read(std::istream& in) {
  auto result = std::make_shared<Descriptor>();
  result->type = read_number<cudnnBackendDescriptorType_t>(in);
  result->finalized = true;
  const auto attributes = read_number<std::size_t>(in);
  for (std::size_t i = 0; i < attributes; ++i) {
    Descriptor::Attribute& attribute =
        result->attributes[read_number<cudnnBackendAttributeName_t>(in)];
    attribute.type = read_number<cudnnBackendAttributeType_t>(in);
    const auto bytes = read_number<std::size_t>(in);
    const auto references = read_number<std::size_t>(in);
    std::string digits;
    if (!(in >> digits) || digits.size() != 2 * bytes + 1) refuse("a plan's text is damaged");
    for (std::size_t k = 1; k < digits.size(); k += 2) {
      attribute.bytes.push_back(static_cast<char>(std::stoi(digits.substr(k, 2), nullptr, 16)));
    }
    for (std::size_t k = 0; k < references; ++k) attribute.references.push_back(read(in));
  }
  return result;
}

}  // namespace

std::string to_text(const Descriptor& descriptor) {
  std::ostringstream out;
  write(descriptor, out);
  return std::move(out).str();
}

std::shared_ptr<const Descriptor> from_text(const std::string& text) {
  std::istringstream in(text);
  return read(in);
}

}  // namespace fake
