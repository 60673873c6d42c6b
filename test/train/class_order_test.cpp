#include "train/class_order.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace trainer::train::class_order_test {
namespace {

model::ImportReport make_report(const std::vector<std::string>& classes, bool has_head = true) {
  model::ImportReport report;
  report.path = "w.h5";
  report.classes = classes;
  report.has_head = has_head;
  return report;
}

}  // namespace

TEST_CASE("describe_class_difference names the first class that differs") {
  CHECK(describe_class_difference({"0", "1", "10"}, {"0", "1", "10"}) == "");
  CHECK(describe_class_difference({"0", "1", "10", "2"}, {"0", "1", "2", "10"}) ==
        "; class 2 was '10', is '2'");
  CHECK(describe_class_difference({"a"}, {"a", "b"}) == "; there were 1 classes, are 2");
}

TEST_CASE("check_class_order: weights of another order of the same classes are rejected") {
  CHECK(check_class_order(make_report({"0", "1", "10"}), {"0", "1", "10"}).text.empty());
  CHECK_THROWS_WITH_AS(
      check_class_order(make_report({"0", "1", "10", "2"}), {"0", "1", "2", "10"}),
      "w.h5: was trained with the same classes in another order; class 2 was '10', is '2'. Give "
      "data.classes in the order of the file: 0, 1, 10, 2",
      DataError);
  // Without the last layer the order does not matter.
  CHECK(check_class_order(make_report({"b", "a"}, false), {"a", "b"}).text.empty());
  CHECK(check_class_order(make_report({}, false), {"a", "b"}).text.empty());
  const Notice other = check_class_order(make_report({"cat", "dog"}), {"car", "dog"});
  CHECK(other.kind == Notice::Kind::kWarning);
  CHECK(other.text.starts_with(
      "w.h5: was trained with other classes than those of the data; class 0 was 'cat', is 'car'"));
}

TEST_CASE("check_class_order: a file without class names gives a note with the assumed order") {
  const Notice note =
      check_class_order(make_report({}), {"0", "1", "10", "11", "2", "3", "4", "5"});
  CHECK(note.kind == Notice::Kind::kNote);
  CHECK(note.text ==
        "w.h5: has no class names; its outputs are taken for the classes of the data in their "
        "order: 0, 1, 10, 11, 2, 3 and 2 more");
}

}  // namespace trainer::train::class_order_test
