#include "base/formats/columns.h"

#include <doctest/doctest.h>

namespace trainer {

TEST_CASE("count_columns and first_columns count characters and divide none of them") {
  CHECK(count_columns("") == 0);
  CHECK(count_columns("a▁█é") == 4);
  CHECK(first_columns("a▁█é", 3) == "a▁█");
  CHECK(first_columns("a▁", 2) == "a▁");
  CHECK(first_columns("a▁", 9) == "a▁");
  CHECK(first_columns("a▁", 0).empty());
}

}  // namespace trainer
