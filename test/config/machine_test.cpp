// The file of `trainer plan --machine`.
#include "config/machine.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "support/contains.h"

namespace trainer::config {
namespace {

using test::contains;

std::string wrong(const std::string& text) {
  try {
    parse_machine(text, "m.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("machine: one node with one L3 cache stands for keys that the file lacks") {
  const MachineShape small = parse_machine("cores_per_domain: 6\n", "m.yaml");
  CHECK(small.nodes == 1);
  CHECK(small.domains_per_node == 1);
  CHECK(small.cores_per_domain == 6);
  CHECK(small.l2_kib == 0);
  CHECK(small.l3_kib == 0);
  const MachineShape large = parse_machine(
      "nodes: 2\ndomains_per_node: 4\ncores_per_domain: 8\nl2_kib: 1024\nl3_kib: 32768\n",
      "m.yaml");
  CHECK(large.nodes == 2);
  CHECK(large.domains_per_node == 4);
  CHECK(large.cores_per_domain == 8);
  CHECK(large.l2_kib == 1024);
  CHECK(large.l3_kib == 32768);
}

TEST_CASE("machine: mistakes are errors with file, line and key") {
  CHECK(contains(wrong(""), "missing required key 'cores_per_domain'"));
  CHECK(wrong("cores_per_domain: 8\nnode: 2\n")
            .starts_with("m.yaml:2:1: error: unknown key 'node', did you mean 'nodes'?"));
  CHECK(wrong("nodes: two\ncores_per_domain: 8\n").starts_with("m.yaml:1:8: error: nodes: "));
  CHECK(wrong("cores_per_domain: 0\n").starts_with("m.yaml:1:19: error: cores_per_domain: "));
  CHECK(wrong("cores_per_domain: 8\nl3_kib: -1\n").starts_with("m.yaml:2:9: error: l3_kib: "));
  CHECK(
      contains(wrong("nodes: 5\ncores_per_domain: 205\n"), "is 1025 cores; expected at most 1024"));
  CHECK(wrong("nodes: [1\n").starts_with("m.yaml:"));
  CHECK_THROWS_AS(load_machine("no/such/machine.yaml"), ConfigError);
}

}  // namespace trainer::config
