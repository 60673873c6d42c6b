#include "config/describe/explain.h"

#include <doctest/doctest.h>

#include "config/describe/schema.h"
#include "config/values.h"

namespace trainer::config {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string mistake(const std::string& path) {
  try {
    explain(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every key that --set can name is explained") {
  for (const std::string& key : settable_keys()) {
    CAPTURE(key);
    const std::string last = key.substr(key.rfind('.') + 1);
    const std::string text = explain(key);
    const std::string first = text.substr(0, text.find(' '));
    CHECK(first.substr(first.rfind('.') + 1) == last);
    CHECK(has(text, "\n    "));
  }
}

TEST_CASE("a key comes with its kind of value, default, meaning and what stands below it") {
  CHECK(explain("optimizer.adam.learning_rate") ==
        "optimizer.adam.learning_rate  a number, at least 0; default 0.001\n    Learning rate.\n");
  const std::string adam = explain("optimizer.adam");
  CHECK(adam.starts_with("optimizer.adam  "));
  CHECK(has(adam, "\noptimizer.adam.beta_1  "));
  CHECK(explain("adam") == adam);
  CHECK(has(explain("optimizer"), "one of sgd, rmsprop, adam"));
  CHECK(has(explain("train.batch_size"), "a whole number or auto, at least 1"));
  CHECK(has(explain("model.backbone.name"), "; required\n"));
  CHECK(has(explain("model.input"), "a list, each a whole number, at least 1, 3 of them\n"));
  CHECK_FALSE(has(explain("model.dense_classifier.hidden_units"), "of them"));
  CHECK(has(explain("train.precision"), "one of float32, tf32, bfloat16"));
}

TEST_CASE("what stands in several places has a section of its own") {
  const std::string conv = explain("model.layers.conv");
  CHECK(conv.starts_with("conv  "));
  CHECK(has(conv, "\nconv.filters  a whole number, at least 1; required\n"));
  CHECK(explain("conv") == conv);
  CHECK(explain("model.head.conv.kernel_size").starts_with("conv.kernel_size  "));
  CHECK(has(explain("layer"), "\nmax_pool  "));
  CHECK(has(explain("model.layers"), "a list of layers"));
  const std::string sections = explain("");
  for (const char* name : {"model  ", "optimizer  ", "run  ", "layer  ", "augmentation  "}) {
    CHECK(has("\n" + sections, std::string("\n") + name));
  }
}

TEST_CASE("a key that is none is answered with the nearest") {
  // Two neighbours that changed places are one mistake.
  CHECK(nearest("ab", {"ba"}) == "ba");
  CHECK(nearest("xab", {"xba", "xcb"}) == "xba");
  CHECK_FALSE(nearest("ab", {"cd"}));
  CHECK(has(mistake("nothing.conv"), "there is no key 'nothing.conv'"));  // though conv is one
  CHECK(has(mistake("optimizr"), "there is no key 'optimizr', did you mean 'optimizer'?"));
  CHECK(has(mistake("optimizer.adam.learning_rte"), "did you mean"));
  CHECK(has(mistake("nothing.like.it"), "`trainer explain` lists the sections"));
}

}  // namespace trainer::config
