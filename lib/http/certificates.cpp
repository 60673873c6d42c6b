#include "http/certificates.h"

namespace trainer::http {

Path find_certificates(const std::map<std::string, std::string>& environment, const Path& root) {
  const auto chosen = environment.find("SSL_CERT_FILE");
  if (chosen != environment.end() && !chosen->second.empty()) return chosen->second;
  for (const char* place : {
           "etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Gentoo
           "etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
           "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL
           "etc/ssl/ca-bundle.pem",                             // SUSE
           "var/lib/ca-certificates/ca-bundle.pem",             // SUSE
           "etc/ssl/cert.pem",                                  // Alpine, OpenBSD
       }) {
    if (path_exists(root / place)) return root / place;
  }
  return {};
}

}  // namespace trainer::http
