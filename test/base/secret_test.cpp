#include "base/process/secret.h"

#include <doctest/doctest.h>

#include <set>

namespace trainer {

TEST_CASE("draw_secret returns another secret of the given length at each call") {
  std::set<std::string> drawn;
  for (const std::size_t bytes : {0, 1, 16, 16, 1000}) {
    const std::string secret = draw_secret(bytes);
    CHECK(secret.size() == 2 * bytes);
    CHECK(secret.find_first_not_of("0123456789abcdef") == std::string::npos);
    drawn.insert(secret);
  }
  CHECK(drawn.size() == 5);
  const std::string many = draw_secret(1000);
  for (const char digit : std::string("0123456789abcdef")) {
    CHECK(many.find(digit) != std::string::npos);
  }
}

TEST_CASE("hmac_sha256 returns the digest of the example of RFC 4231") {
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("compute_proof: another secret or another division into parts gives another proof") {
  const std::string proof = compute_proof("secret", {"ab", "c"});
  CHECK(proof == compute_proof("secret", {"ab", "c"}));
  CHECK(proof != compute_proof("Secret", {"ab", "c"}));
  CHECK(proof != compute_proof("secret", {"a", "bc"}));
  CHECK(proof != compute_proof("secret", {"abc"}));
  CHECK(same_secret(proof, std::string(proof)));
  CHECK_FALSE(same_secret(proof, proof.substr(1)));
  CHECK_FALSE(same_secret(proof, compute_proof("secret", {})));
}

}  // namespace trainer
