#include "support/golden.h"

namespace trainer {

TEST_CASE(
    "differences shows the lines of a shorter, longer or other text beside the expected ones") {
  using test::differences;
  CHECK(differences("", "") == "");
  CHECK(differences("a\nb\n", "a\nb\n") == "");
  CHECK(differences("a\nc\n", "a\nb\n") == "\nline 2: c\nexpected: b");
  const std::string ended = "(the text has ended)\nexpected: ";
  CHECK(differences("a\nb\n", "a\nb\nb\n") == "\nline 3: " + ended + "b");
  CHECK(differences("a\nb", "a\nb\nb\nb") == "\nline 3: " + ended + "b\nline 4: " + ended + "b");
  CHECK(differences("a\n", "a\n\n") == "\nline 2: " + ended);
  CHECK(differences("a\nb\n", "a\n") == "\nline 2: b\nexpected: (the end of the text)");
  CHECK(differences("a", "a\n") == "\nthe newline at the end");
}

}  // namespace trainer
