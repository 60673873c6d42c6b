#include "cluster/identity.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "cluster/identity/sources.h"

namespace trainer::cluster {
namespace {

std::optional<int> to_number(std::string_view text) {
  const std::int64_t value = parse_integer(text).value_or(-1);
  if (value < 0 || value > std::numeric_limits<int>::max()) return {};
  return static_cast<int>(value);
}

std::optional<Claim> claim_of_flags(const IdentityFlags& flags,
                                    const config::Environment& environment) {
  const bool has_pmix = !read_variable(environment, "PMIX_RANK").empty();
  if (!flags.rank && (!flags.world_size || has_pmix)) return {};
  if (!flags.rank) wrong("--world-size", "needs --rank beside it");
  if (!flags.world_size) wrong("--rank", "needs --world-size beside it");
  Claim claim;
  claim.identity.rank = *flags.rank;
  claim.identity.size = *flags.world_size;
  claim.identity.source = "--rank";
  return claim;
}

void check_range(const Identity& identity) {
  if (identity.size < 1) {
    wrong(identity.source, concat("the world size is ", identity.size, ", expected 1 or more"));
  }
  if (identity.rank >= identity.size) {
    wrong(identity.source, concat("rank ", identity.rank, " of ", identity.size,
                                  " is out of range, ranks count from 0 to ", identity.size - 1));
  }
}

void check_agreement(const Claim& first, const Claim& other) {
  const Identity &a = first.identity, &b = other.identity;
  if (first.nests || other.of_nodes || a.rank < 0) return;
  if (a.rank == b.rank && a.size == b.size) return;
  wrong(a.source, concat("gives rank ", a.rank, " of ", a.size, ", but ", b.source, " gives rank ",
                         b.rank, " of ", b.size, "; take one of the two away"));
}

// A port that all ranks find by themselves, below those that the kernel gives away.
int derive_port(const std::string& job) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(job.data());
  return 20000 + static_cast<int>(crc32c({bytes, job.size()}) % 10000);
}

Address address_or_throw(const std::string& what, const std::string& text) {
  if (auto address = parse_address(text)) return *address;
  wrong(what, "expected host:port with a port from 1 to 65535, found '" + text + "'");
}

// --master replaces the address of any source; the variables complete it.
Address find_master(const IdentityFlags& flags, const Claim& claim,
                    const config::Environment& environment) {
  const Identity& identity = claim.identity;
  if (!flags.master.empty()) return address_or_throw("--master", flags.master);
  if (!identity.master.host.empty() && identity.master.port > 0) return identity.master;
  const std::string host = read_variable(environment, "MASTER_ADDR");
  const auto port = read_number(environment, "MASTER_PORT");
  if (port && (*port < 1 || *port > 65535)) {
    wrong("MASTER_PORT", concat("expected a port from 1 to 65535, found ", *port));
  }
  Address master = identity.master;
  if (!host.empty()) master.host = host;
  if (master.host.empty() && claim.one_host) master.host = "127.0.0.1";
  if (master.host.empty()) {
    wrong(identity.source,
          "the address of rank 0 is missing; give --master host:port, or set MASTER_ADDR "
          "and MASTER_PORT");
  }
  if (port) {
    master.port = *port;
  } else if (!identity.job.empty()) {
    master.port = derive_port(identity.job);
  } else {
    wrong(identity.source,
          "the port of rank 0 is missing; set MASTER_PORT or give --master host:port");
  }
  return master;
}

// At least as hard to guess as a password that is worth the name.
constexpr std::size_t kShortestSecret = 16;

std::string read_secret(const IdentityFlags& flags, const config::Environment& environment) {
  const std::string variable = read_variable(environment, "TRAINER_SECRET");
  const bool has_file = !flags.secret_file.empty();
  if (!has_file && variable.empty()) return "";
  const std::string source = has_file ? "--secret-file" : "TRAINER_SECRET";
  std::string secret;
  try {
    secret = has_file ? read_text_file(flags.secret_file) : variable;
  } catch (const DataError& error) {
    throw ConfigError({"--secret-file", 0, 0}, error.what());
  }
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.size() < kShortestSecret) {
    throw ConfigError({source, 0, 0}, "the secret has ", secret.size(),
                      " characters, expected at least ", kShortestSecret,
                      "; draw one with: openssl rand -hex 32");
  }
  return secret;
}

Identity identify_place(const IdentityFlags& flags, const config::Environment& environment);

// Ranks that reach rank 0 over the loopback device are all on its host.
void resolve_local_ranks(Identity& identity, bool one_host) {
  if (identity.rank < 0) return;
  if (identity.size == 1 || one_host || is_loopback(identity.master.host)) {
    identity.local_rank = identity.rank;
    identity.local_size = identity.size;
  }
  const bool fits = identity.local_rank && identity.local_size > identity.local_rank;
  if (!fits) identity.local_size.reset();
}

Identity identify_place(const IdentityFlags& flags, const config::Environment& environment) {
  std::vector<Claim> claims;
  const auto add = [&](std::optional<Claim> claim) {
    if (claim) claims.push_back(std::move(*claim));
  };
  add(claim_of_flags(flags, environment));
  add(claim_of_tf_config(environment));
  add(claim_of_torchrun(environment));
  add(claim_of_open_mpi(environment));
  add(claim_of_flux(environment));
  add(claim_of_pmi(environment));
  add(claim_of_slurm(environment));
  add(claim_of_pmix(environment, flags.world_size));
  add(claim_of_jax(environment));
  add(claim_of_torch_runtime(environment));
  add(claim_of_hosts(environment, flags.hosts));
  if (claims.empty()) {
    if (!flags.master.empty()) wrong("--master", "needs --rank and --world-size beside it");
    Identity alone;
    alone.source = "nothing";
    alone.local_rank = 0;
    alone.local_size = 1;
    return alone;
  }
  for (const Claim& claim : claims) check_range(claim.identity);
  for (const Claim& claim : claims) check_agreement(claims.front(), claim);
  Identity identity = claims.front().identity;
  if (identity.size > 1 || identity.rank < 0) {
    identity.master = find_master(flags, claims.front(), environment);
  }
  resolve_local_ranks(identity, claims.front().one_host);
  if (identity.source != "TF_CONFIG") {
    identity.role = identity.rank == 0 ? Role::kChief : Role::kWorker;
    identity.index = identity.rank;
  }
  return identity;
}

}  // namespace

std::string to_string(const Address& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return concat(v6 ? "[" : "", address.host, v6 ? "]:" : ":", address.port);
}

std::optional<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return {};
  std::string_view host = text.substr(0, colon);
  const auto port = to_number(text.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) return {};
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!bracketed && host.find(':') != std::string_view::npos) return {};
  if (host.find_first_of(" \t/") != std::string_view::npos) return {};
  return Address{std::string(host), *port};
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.substr(0, 4) == "127.";
}

std::string rank_name(const Identity& identity, int rank) {
  const auto& [chief, worker, ps, evaluator] = identity.cluster;
  if (chief.empty() && worker.empty()) return concat("rank ", rank);
  const int chiefs = static_cast<int>(chief.size());
  if (rank < chiefs) return "chief at " + to_string(chief[rank]);
  const int index = rank - chiefs;
  return concat("worker:", index, " at ", to_string(worker[index]));
}

std::string cluster_text(const Identity& identity) {
  std::string text = concat("world size: ", identity.size, '\n');
  const auto add = [&](const char* type, const std::vector<Address>& tasks) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      text += concat(type, ':', i, ": ", to_string(tasks[i]), '\n');
    }
  };
  add("chief", identity.cluster.chief);
  add("worker", identity.cluster.worker);
  add("ps", identity.cluster.ps);
  add("evaluator", identity.cluster.evaluator);
  return text;
}

void wrong(const std::string& what, const std::string& message) {
  throw ConfigError({what, 0, 0}, message);
}

std::optional<int> read_number(const config::Environment& environment, const std::string& name) {
  const std::string text = read_variable(environment, name);
  if (text.empty()) return {};
  const auto value = to_number(text);
  if (!value) wrong(name, "expected a number from 0, found '" + text + "'");
  return value;
}

bool accepts_unauthenticated_peers(const Identity& identity) {
  if (identity.size == 1 && identity.rank >= 0 && identity.cluster.ps.empty()) return false;
  if (!identity.secret.empty() || identity.role == Role::kEvaluator) return false;
  const auto is_remote = [](const Address& address) { return !is_loopback(address.host); };
  return is_remote(identity.master) || std::ranges::any_of(identity.cluster.ps, is_remote);
}

Identity identify(const IdentityFlags& flags, const config::Environment& environment) {
  Identity identity = identify_place(flags, environment);
  identity.secret = read_secret(flags, environment);
  return identity;
}

}  // namespace trainer::cluster
