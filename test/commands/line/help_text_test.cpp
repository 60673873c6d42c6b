// The help of the command line on a terminal.
#include "line/help_text.h"

#include <doctest/doctest.h>

namespace trainer::app {

TEST_CASE("wrap_help continues a description in its column") {
  CHECK(wrap_help("  --seed N    Seed of everything random\n", 30) ==
        "  --seed N    Seed of\n"
        "              everything\n"
        "              random\n");
  CHECK(wrap_help("              Seed of everything random\n", 40) ==
        "              Seed of everything random\n");
  CHECK(wrap_help("        Seed of everything\n", 20) == "        Seed of\n        everything\n");
}

TEST_CASE("wrap_help continues a description that begins in the right half below the name") {
  CHECK(wrap_help("  --seed N    Seed of everything random\n", 24) ==
        "  --seed N    Seed of\n"
        "  everything random\n");
}

TEST_CASE("wrap_help does not change a line of exactly the width") {
  CHECK(wrap_help("Exit codes: 0 done\n", 18) == "Exit codes: 0 done\n");
  CHECK(wrap_help("Exit codes: 0 done\n", 17) == "Exit codes: 0\ndone\n");
}

TEST_CASE("wrap_help keeps a word that is longer than a line whole") {
  CHECK(wrap_help("  a  parallel.reduction=ordered or fast\n", 12) ==
        "  a\n     parallel.reduction=ordered\n     or fast\n");
  CHECK(wrap_help("parallel.reduction=ordered\n", 12) == "parallel.reduction=ordered\n");
}

TEST_CASE("wrap_help continues a line that begins in the right half further left") {
  CHECK(wrap_help("            Seed of everything\n", 20) ==
        "            Seed of\n          everything\n");
}

TEST_CASE("wrap_help does not change examples and wraps the lines behind them") {
  CHECK(wrap_help("Examples:\n  trainer train a.yaml --epochs 3\nExit codes: 0 done\n", 14) ==
        "Examples:\n  trainer train a.yaml --epochs 3\nExit codes: 0\ndone\n");
}

}  // namespace trainer::app
