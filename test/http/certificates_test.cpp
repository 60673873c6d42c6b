#include "http/certificates.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace trainer::http {

TEST_CASE("find_certificates finds the place of each distribution") {
  namespace fs = std::filesystem;
  const TemporaryFolder root;
  CHECK(find_certificates({}, root.path()).empty());
  const Path fedora = root.path() / "etc/pki/tls/certs/ca-bundle.crt";
  fs::create_directories(fedora.parent_path());
  std::ofstream(fedora) << "x";
  CHECK(find_certificates({}, root.path()) == fedora);
  const Path debian = root.path() / "etc/ssl/certs/ca-certificates.crt";
  fs::create_directories(debian.parent_path());
  std::ofstream(debian) << "x";
  CHECK(find_certificates({}, root.path()) == debian);
  CHECK(find_certificates({{"SSL_CERT_FILE", "/mine"}}, root.path()) == "/mine");
}

}  // namespace trainer::http
