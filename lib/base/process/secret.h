// Shared secrets of processes, and proofs that a process has one.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace trainer {

// Returns an HMAC-SHA256 (RFC 2104) as 64 lower-case hexadecimal digits. The parts are hashed with
// their lengths, so that no other division of the same text gives the same result.
std::string compute_proof(std::string_view secret, std::initializer_list<std::string_view> parts);

// Returns the HMAC-SHA256 of one text, in hexadecimal.
std::string hmac_sha256(std::string_view secret, std::string_view text);

// Compares two texts in a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b);

// Returns `bytes` random bytes of the system, in hexadecimal.
std::string draw_secret(std::size_t bytes);

}  // namespace trainer
