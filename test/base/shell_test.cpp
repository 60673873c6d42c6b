#include "base/process/shell.h"

#include <doctest/doctest.h>

TEST_CASE("shell_word quotes only where a shell needs it") {
  CHECK(trainer::shell_word("model.weights=runs/a-1_b.c") == "model.weights=runs/a-1_b.c");
  CHECK(trainer::shell_word("runs/my exp #2") == "'runs/my exp #2'");
  CHECK(trainer::shell_word("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(trainer::shell_word("") == "''");
}
