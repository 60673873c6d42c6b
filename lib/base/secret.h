// Shared secrets of processes, and proofs that a process knows one.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace trainer {

// HMAC-SHA256 (RFC 2104), as 64 lower-case hexadecimal digits. The parts are hashed with their
// lengths, so that no other division of the same text gives the same result.
std::string proof_of(std::string_view secret, std::initializer_list<std::string_view> parts);

// HMAC-SHA256 of one text, in hexadecimal.
std::string hmac_sha256(std::string_view secret, std::string_view text);

// Compares in a time that does not depend on where two texts differ.
bool same_secret(std::string_view a, std::string_view b);

// `bytes` random bytes of the system, in hexadecimal.
std::string draw_secret(std::size_t bytes);

}  // namespace trainer
