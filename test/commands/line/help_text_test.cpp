// The help of the command line on a terminal.
#include "line/help_text.h"

#include <doctest/doctest.h>

namespace trainer::app {

TEST_CASE("wrap_help: a description, continued in its column") {
  CHECK(wrap_help("  --seed N    Seed of everything random\n", 30) ==
        "  --seed N    Seed of\n"
        "              everything\n"
        "              random\n");
  CHECK(wrap_help("              Seed of everything random\n", 40) ==
        "              Seed of everything random\n");
  CHECK(wrap_help("        Seed of everything\n", 20) == "        Seed of\n        everything\n");
}

TEST_CASE("wrap_help: a description that begins in the right half, continued below the name") {
  CHECK(wrap_help("  --seed N    Seed of everything random\n", 24) ==
        "  --seed N    Seed of\n"
        "  everything random\n");
}

TEST_CASE("wrap_help: a line of exactly the width, unchanged") {
  CHECK(wrap_help("Exit codes: 0 done\n", 18) == "Exit codes: 0 done\n");
  CHECK(wrap_help("Exit codes: 0 done\n", 17) == "Exit codes: 0\ndone\n");
}

TEST_CASE("wrap_help: a word that is longer than a line, whole") {
  CHECK(wrap_help("  a  parallel.reduction=ordered or fast\n", 12) ==
        "  a\n     parallel.reduction=ordered\n     or fast\n");
  CHECK(wrap_help("parallel.reduction=ordered\n", 12) == "parallel.reduction=ordered\n");
}

TEST_CASE("wrap_help: a line that begins in the right half, continued further left") {
  CHECK(wrap_help("            Seed of everything\n", 20) ==
        "            Seed of\n          everything\n");
}

TEST_CASE("wrap_help: examples, unchanged and the lines behind them wrapped") {
  CHECK(wrap_help("Examples:\n  trainer train a.yaml --epochs 3\nExit codes: 0 done\n", 14) ==
        "Examples:\n  trainer train a.yaml --epochs 3\nExit codes: 0\ndone\n");
}

}  // namespace trainer::app
