// The alternatives of a std::variant in a list of fields (see config/fields.h).
#pragma once

#include <variant>

namespace trainer::config {

// One alternative of a std::variant whose fields stand below `key`.
template <class T, class V, class Variant>
void kind(V& v, Variant& value, const char* key, const char* help) {
  v.alternative(
      key, help, std::holds_alternative<T>(value), [&] { value.template emplace<T>(); },
      [&](auto& inner) { fields(inner, std::get<T>(value)); });
}

}  // namespace trainer::config
