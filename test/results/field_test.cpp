#include "results/field.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/split.h"
#include "results/describe.h"
#include "results/read_json.h"
#include "results/write_json.h"

namespace trainer::results::field_test {

using Json = nlohmann::ordered_json;

struct Point {
  double share = 0;
};
void fields(FieldVisitor& v, Point& point) { v("share", point.share, kShare, "a share"); }

struct Everything {
  bool is_on = true;
  std::int64_t count = 3;
  int small = 2;
  double number = 0.1;
  std::string text = "a";
  Split split = Split::kTest;
  std::optional<double> maybe;
  std::string note;
  std::vector<std::vector<std::int64_t>> rows{{1, 2}, {}};
  std::vector<std::pair<std::string, double>> named{{"z", 1}, {"a", 0.5}};
  std::map<std::string, Point> points{{"one", {0.25}}};
  Point nested;
};
void fields(FieldVisitor& v, Everything& all) {
  v("is_on", all.is_on, kNoUnit, "a switch");
  v("count", all.count, kSamples, "a count");
  v("small", all.small, kNoUnit, "a small number");
  v("number", all.number, "ms", "a number");
  v("text", all.text, kNoUnit, "a text");
  v("split", all.split, kNoUnit, "a word");
  v("maybe", all.maybe, kSeconds, "a number or null");
  v.when_present("note", all.note, kNoUnit, "a text that may be absent");
  v("rows", all.rows, kSamples, "lists of counts");
  v("named", all.named, kNoUnit, "numbers by name");
  v("points", all.points, kNoUnit, "results by name");
  v("nested", all.nested, kNoUnit, "a result");
  v.derived("twice", 2 * all.count, kSamples, "twice the count");
}

const char* const kText =
    R"({"is_on":true,"count":3,"small":2,"number":0.1,"text":"a","split":"test","maybe":null,)"
    R"("rows":[[1,2],[]],"named":{"z":1.0,"a":0.5},"points":{"one":{"share":0.25}},)"
    R"("nested":{"share":0.0},"twice":6})";

// Reads kText with another value at a JSON pointer, or without the key if the value is discarded.
Everything read_with(const std::string& pointer, const Json& value) {
  Json json = Json::parse(kText);
  json[Json::json_pointer(pointer)] = value;
  return from_json<Everything>(json, {"a.json", "make it again"});
}

TEST_CASE("to_json writes each form of value, in the order of the fields") {
  CHECK(to_json_line(to_json(Everything{})) == kText);
}

TEST_CASE("to_json writes a key that may be absent once it has a value") {
  Everything all;
  all.note = "seen";
  CHECK(to_json(all)["note"] == "seen");
}

TEST_CASE("to_json does not write to a constant") {
  static const Everything kAll;
  CHECK(to_json(kAll)["count"] == 3);
}

TEST_CASE("to_json writes null for a number that is not finite, and from_json reads it as NaN") {
  Everything all;
  all.number = std::numeric_limits<double>::infinity();
  CHECK(to_json(all)["number"].is_null());
  CHECK(std::isnan(read_with("/number", Json()).number));
}

TEST_CASE("from_json reads what to_json has written") {
  Everything all;
  all.is_on = false;
  all.count = 5;
  all.split = Split::kTrain;
  all.maybe = 1.5;
  all.note = "seen";
  all.rows = {{7}};
  all.named = {{"b", 2}, {"a", 3}};
  all.points = {{"two", {1}}, {"three", {0.5}}};
  const Everything read = from_json<Everything>(to_json(all), {"a.json", ""});
  CHECK(to_json(read) == to_json(all));
}

struct Renewed {
  std::string text = "as before";
};
void fields(FieldVisitor& v, Renewed& renewed) { v.newer("text", renewed.text, "a newer key"); }

TEST_CASE("from_json leaves a member alone whose key an older file lacks") {
  CHECK(to_json_line(to_json(Renewed{})) == R"({"text":"as before"})");
  CHECK(from_json<Renewed>(Json::object(), {"a.json", ""}).text == "as before");
  CHECK(from_json<Renewed>(Json{{"text", "new"}}, {"a.json", ""}).text == "new");
}

TEST_CASE("from_json allows other keys") { CHECK(read_with("/other", 1).count == 3); }

TEST_CASE("from_json names the file and the key of a value that is damaged") {
  struct Case {
    const char* pointer;
    Json value;
    const char* message;
  };
  const std::vector<Case> cases{
      {"/is_on", 1, "the value of is_on is not true or false, but: 1"},
      {"/count", 0.5, "the value of count is not a whole number, but: 0.5"},
      {"/count", -1, "the value of count is not from 0 to"},
      {"/count", 1e300, "the value of count is not a whole number, but: 1e+300"},
      {"/small", std::int64_t{1} << 40, "the value of small is not at most 2147483647"},
      {"/number", "x", "the value of number is not a number, but: string"},
      {"/text", Json(), "the value of text is not a text, but: null"},
      {"/split", "tests", "the value of split is not one of train, validation, test, but: string"},
      {"/maybe", -1, "the value of maybe is not at least 0, but: -1"},
      {"/rows", Json::object(), "the value of rows is not a list, but: object"},
      {"/rows/0/1", -2, "the value of rows[0][1] is not from 0 to"},
      {"/named", 3, "the value of named is not an object, but: 3"},
      {"/named/a", "x", "the value of named.a is not a number, but: string"},
      {"/points/one/share", 2, "the value of points.one.share is not from 0 to 1, but: 2"},
      {"/nested", Json::object(), "lacks the key nested.share"},
      {"/twice", "x", "the value of twice is not a whole number, but: string"}};
  for (const Case& one : cases) {
    CAPTURE(one.pointer);
    const std::string expected = concat("a.json: is damaged: ", one.message);
    CHECK_THROWS_WITH_AS(read_with(one.pointer, one.value), doctest::Contains(expected.c_str()),
                         DataError);
    CHECK_THROWS_WITH_AS(read_with(one.pointer, one.value), doctest::Contains("; make it again"),
                         DataError);
  }
}

TEST_CASE("describe lists the keys of a result with their forms") {
  const Form form = describe<Everything>();
  REQUIRE(form.keys.size() == 13);
  const auto find = [&](const std::string& key) {
    return *std::ranges::find(form.keys, key, &KeyDescription::key);
  };
  CHECK(find("count").unit.name == "samples");
  CHECK(find("count").form.kind == Form::Kind::kInteger);
  CHECK(find("split").form.words == std::vector<std::string>{"train", "validation", "test"});
  CHECK(find("maybe").form.may_be_null);
  CHECK(find("note").may_be_absent);
  CHECK_FALSE(find("text").may_be_absent);
  CHECK(find("rows").form.items.at(0).items.at(0).kind == Form::Kind::kInteger);
  CHECK(find("points").form.kind == Form::Kind::kMap);
  CHECK(find("points").form.items.at(0).keys.at(0).meaning == "a share");
}

}  // namespace trainer::results::field_test
