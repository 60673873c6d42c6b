#include "base/process/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "base/text.h"

namespace trainer {
std::string hmac_sha256(std::string_view secret, std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), bytes, text.size(), digest,
           &size) == nullptr) {
    throw std::runtime_error("libcrypto has no HMAC-SHA256");
  }
  return to_hex({digest, size});
}

std::string compute_proof(std::string_view secret, std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    text += std::to_string(part.size());
    text += ':';
    text += part;
  }
  return hmac_sha256(secret, text);
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string draw_secret(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t got = ::getrandom(random.data() + at, bytes - at, 0);
    if (got < 0 && errno != EINTR) {
      throw std::runtime_error(std::string("the system gives no random numbers: ") +
                               std::strerror(errno));
    }
    if (got > 0) at += got;
  }
  return to_hex(random);
}

}  // namespace trainer
