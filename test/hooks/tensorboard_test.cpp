#include <doctest/doctest.h>

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#include <stb/stb_image.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "hooks/formats/confusion_image.h"
#include "hooks/support.h"
#include "support/confusion.h"

namespace trainer::hooks {
namespace {

using namespace test;

// A protocol buffer's fields by number, as the bytes or the raw number of each.
struct Message {
  std::multimap<int, std::string> bytes;
  std::multimap<int, std::uint64_t> numbers;

  bool has(int field) const { return bytes.count(field) + numbers.count(field) > 0; }
  std::string text(int field) const { return bytes.find(field)->second; }
  std::uint64_t number(int field) const { return numbers.find(field)->second; }
  template <class Number>
  Number as(int field) const {
    const std::uint64_t raw = number(field);
    Number value;
    std::memcpy(&value, &raw, sizeof value);
    return value;
  }
};

Message parse(const std::string& data) {
  Message message;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(at < data.size());
      const auto byte = static_cast<unsigned char>(data[at++]);
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  };
  const auto fixed_size = [&](std::size_t size) {
    REQUIRE(at + size <= data.size());
    std::uint64_t value = 0;
    std::memcpy(&value, data.data() + at, size);
    at += size;
    return value;
  };
  while (at < data.size()) {
    const std::uint64_t key = varint();
    const int field = static_cast<int>(key >> 3);
    const int type = static_cast<int>(key & 7);
    if (type == 2) {
      const std::size_t size = varint();
      REQUIRE(at + size <= data.size());
      message.bytes.emplace(field, data.substr(at, size));
      at += size;
    } else {
      REQUIRE((type == 0 || type == 1 || type == 5));
      message.numbers.emplace(field, type == 0 ? varint() : fixed_size(type == 1 ? 8 : 4));
    }
  }
  return message;
}

// The records of a file. Fails the test on a wrong length or checksum.
std::vector<Message> read_events(const Path& path) {
  const Bytes bytes = read_file(path);
  const std::span<const std::uint8_t> all(bytes);
  const auto check = [&](std::size_t first, std::size_t size) {
    REQUIRE(first + size + 4 <= all.size());
    std::uint32_t masked;
    std::memcpy(&masked, all.data() + first + size, 4);
    const std::uint32_t rotated = masked - 0xa282ead8u;
    REQUIRE((rotated >> 17 | rotated << 15) == crc32c(all.subspan(first, size)));
  };
  std::vector<Message> events;
  for (std::size_t at = 0; at < all.size();) {
    check(at, 8);
    std::uint64_t size;
    std::memcpy(&size, all.data() + at, 8);
    check(at + 12, size);
    events.push_back(parse({reinterpret_cast<const char*>(all.data()) + at + 12, size}));
    at += 16 + size;
  }
  return events;
}

// The event files of a split, or with "" of the run.
std::vector<Path> event_files(const TemporaryFolder& folder, const std::string& split) {
  std::vector<Path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.path() / "tensorboard" / split)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

// Names an event with one scalar: "tag@step".
std::string label(const Message& event) {
  const Message value = parse(parse(event.text(5)).text(1));
  return concat(value.text(1), "@", event.number(2));
}
float scalar(const Message& event) { return parse(parse(event.text(5)).text(1)).as<float>(2); }

}  // namespace

TEST_CASE("tensorboard: events have their version, and scalars tag and step") {
  const TemporaryFolder folder;
  const auto hook = make_tensorboard_hook({steps(2)});
  hook->on_start(run_info(folder.path(), 4, 9));
  for (std::int64_t n = 5; n <= 7; ++n) hook->on_step(after_step(n));
  // Nothing waits for the end: this is read while the hook lives.
  const auto files = event_files(folder, "train");
  REQUIRE(files.size() == 1);
  CHECK(files[0].filename().string().starts_with("events.out.tfevents.1"));
  CHECK(files[0].filename().string().find(concat(".", ::getpid(), ".")) != std::string::npos);
  const auto events = read_events(files[0]);
  REQUIRE(events.size() == 8);
  CHECK(events[0].text(3) == "brain.Event:2");
  CHECK(events[0].as<double>(1) > 1.6e9);
  // SessionLog START at the first step that is done again.
  CHECK(events[1].number(2) == 5);
  CHECK(parse(events[1].text(7)).number(1) == 1);
  const std::vector<std::pair<std::string, float>> expected{
      {"Loss@6", 0.55f},           {"Metrics/accuracy@6", 0.5f},
      {"learning_rate@6", 0.001f}, {"images_per_second@6", 3200.f},
      {"global_step/sec@6", 50.f}, {"wait_share@6", 0.25f}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(label(events[i + 2]) == expected[i].first);
    CHECK(scalar(events[i + 2]) == doctest::Approx(expected[i].second).epsilon(1e-6));
  }
  // The last steps have a point, wherever a run was interrupted before.
  hook->on_finish(finish(FinishReason::kInterrupted, 7));
  CHECK(read_events(files[0]).size() == 8);
  for (std::int64_t n = 8; n <= 9; ++n) hook->on_step(after_step(n));
  const auto more = read_events(files[0]);
  REQUIRE(more.size() == 20);
  CHECK(label(more[8]) == "Loss@8");
  CHECK(label(more[14]) == "Loss@9");
}

TEST_CASE(
    "tensorboard: a run resumed between two events has the means of all steps since the last") {
  std::string saved;
  {
    const TemporaryFolder folder;
    const auto hook = make_tensorboard_hook({steps(4)});
    hook->on_start(run_info(folder.path()));
    for (std::int64_t n = 1; n <= 3; ++n) hook->on_step(after_step(n));
    saved = hook->save();
  }
  const TemporaryFolder folder;
  const auto hook = make_tensorboard_hook({steps(4)});
  hook->restore(saved);
  hook->on_start(run_info(folder.path(), 3));
  hook->on_evaluation(evaluation(Split::kValidation, 3, 0.125));
  const auto events = read_events(event_files(folder, "train").at(0));
  REQUIRE(events.size() == 8);
  CHECK(label(events[2]) == "Loss@3");
  CHECK(scalar(events[2]) == doctest::Approx(0.2));
  CHECK(scalar(events[5]) == doctest::Approx(3200));
}

TEST_CASE(
    "tensorboard: a run resumed at its end repeats an evaluation, its events are written once") {
  const auto evaluate = [](Hook& hook, std::int64_t step) {
    hook.on_evaluation(evaluation(Split::kValidation, step, 0.125));
    hook.on_evaluation(evaluation(Split::kTest, step, 0.25));
  };
  const TemporaryFolder folder;
  const auto first = make_tensorboard_hook({steps(4)});
  first->on_start(run_info(folder.path(), 0, 9));
  for (std::int64_t n = 1; n <= 9; ++n) first->on_step(after_step(n));
  evaluate(*first, 9);
  const std::string saved = first->save();
  for (const std::string& text : {saved, std::string(), std::string(";"), std::string(";test"),
                                  std::string(";test x"), std::string(";test 8")}) {
    CAPTURE(text);
    const TemporaryFolder other;
    const auto resumed = make_tensorboard_hook({steps(4)});
    resumed->restore(text);
    resumed->on_start(run_info(other.path(), 9, 9));
    evaluate(*resumed, 9);
    CHECK(std::filesystem::exists(other.path() / "tensorboard" / "test") == (text != saved));
    // A checkpoint that is saved again has the same state.
    CHECK(resumed->save() == saved);
  }
}

TEST_CASE("tensorboard: evaluations have the confusion matrix as a picture") {
  const TemporaryFolder folder;
  const auto hook = make_tensorboard_hook({steps(100)});
  hook->on_start(run_info(folder.path()));
  Evaluation e = evaluation(Split::kValidation, 300, 0.125);
  e.metrics.top_k = 5;
  e.metrics.top_k_accuracy = 0.875;
  hook->on_evaluation(e);
  const auto events = read_events(event_files(folder, "validation").at(0));
  REQUIRE(events.size() == 9);
  CHECK(label(events[2]) == "Loss@300");
  CHECK(scalar(events[2]) == 0.125f);
  CHECK(label(events[3]) == "Metrics/accuracy@300");
  CHECK(scalar(events[3]) == 0.75f);
  CHECK(label(events[4]) == "Metrics/top_k_accuracy@300");
  CHECK(scalar(events[4]) == 0.875f);
  CHECK(label(events[5]) == "Metrics/f1_macro@300");
  CHECK(label(events[6]) == "Metrics/f1_weighted@300");
  CHECK(label(events[7]) == "Metrics/balanced_accuracy@300");
  CHECK(label(events[8]) == "confusion_matrix@300");
  const Message image = parse(parse(parse(events[8].text(5)).text(1)).text(4));
  CHECK(image.number(3) == 3);
  const std::string png = image.text(4);
  int width = 0, height = 0, channels = 0;
  stbi_uc* pixels =
      stbi_load_from_memory(reinterpret_cast<const stbi_uc*>(png.data()),
                            static_cast<int>(png.size()), &width, &height, &channels, 3);
  REQUIRE(pixels != nullptr);
  CHECK(static_cast<std::uint64_t>(width) == image.number(2));
  CHECK(static_cast<std::uint64_t>(height) == image.number(1));
  stbi_image_free(pixels);
}

TEST_CASE("tensorboard: event files of different splits have different names") {
  const TemporaryFolder folder;
  const auto hook = make_tensorboard_hook({.summary_every = steps(100), .config = "data: {}"});
  hook->on_start(run_info(folder.path()));
  hook->on_evaluation(evaluation(Split::kValidation, 3, 0.125));
  hook->on_evaluation(evaluation(Split::kTest, 3, 0.25));
  std::set<Path> names;
  for (const char* split : {"", "validation", "test"}) {
    names.insert(event_files(folder, split).at(0).filename());
  }
  CHECK(names.size() == 3);
}

TEST_CASE("tensorboard: an evaluation of samples without classes has no picture") {
  for (const int classes : {0, 1}) {
    const TemporaryFolder folder;
    const auto hook = make_tensorboard_hook({steps(100)});
    hook->on_start(run_info(folder.path()));
    Evaluation e = evaluation(Split::kTest, 300, 0.125);
    e.metrics.classes = classes;
    e.metrics.confusion =
        make_confusion(std::vector<std::int64_t>(static_cast<std::size_t>(classes), 4));
    hook->on_evaluation(e);
    const auto events = read_events(event_files(folder, "test").at(0));
    CHECK((label(events.back()) == "confusion_matrix@300") == (classes > 0));
  }
}

TEST_CASE("tensorboard: later events are in new files after event files are removed") {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  TensorBoardOptions options{steps(1)};
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto hook = make_tensorboard_hook(std::move(options));
  hook->on_start(run_info(folder.path()));
  hook->on_step(after_step(1));
  std::filesystem::remove_all(folder.path() / "tensorboard");
  hook->on_step(after_step(2));
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.path() / "tensorboard" / "train")) {
    files += std::filesystem::file_size(entry) > 100 ? 1 : 0;
  }
  CHECK(files == 1);
  CHECK(warnings.size() == 1);
}

TEST_CASE(
    "confusion picture: true classes go down, predicted ones across, darker for larger shares") {
  engine::Metrics metrics;
  metrics.classes = 3;
  metrics.confusion = make_confusion({10, 0, 0, /**/ 1, 8, 1, /**/ 0, 0, 0});
  const Picture picture = draw_confusion(metrics);
  int width = 0, height = 0, channels = 0;
  stbi_uc* pixels = stbi_load_from_memory(picture.png.data(), static_cast<int>(picture.png.size()),
                                          &width, &height, &channels, 3);
  REQUIRE(pixels != nullptr);
  CHECK(width == picture.width);
  CHECK(height == picture.height);
  const auto brightness = [&](int row, int column) {
    // Beside the count.
    const int x = picture.left + column * picture.cell + 1;
    const int y = picture.top + row * picture.cell + 1;
    const stbi_uc* pixel = pixels + (y * width + x) * 3;
    return pixel[0] + pixel[1] + pixel[2];
  };
  const int white = 3 * 255;
  CHECK(brightness(0, 1) == white);
  CHECK(brightness(2, 2) == white);  // a class without samples
  CHECK(brightness(0, 0) < brightness(1, 1));
  CHECK(brightness(1, 1) < brightness(1, 0));
  CHECK(brightness(1, 0) < white);
  CHECK(brightness(1, 0) == brightness(1, 2));
  stbi_image_free(pixels);
}

TEST_CASE("confusion picture: classes without names have their numbers") {
  engine::Metrics metrics;
  metrics.classes = 10;
  metrics.confusion = make_confusion(std::vector<std::int64_t>(100, 1));
  std::vector<std::string> numbers;
  for (int c = 0; c < 10; ++c) numbers.push_back(std::to_string(c));
  const Picture unnamed = draw_confusion(metrics), numbered = draw_confusion(metrics, numbers);
  CHECK(unnamed.left == numbered.left);
  CHECK(unnamed.png == numbered.png);
  // One name too few is as good as none.
  numbers.pop_back();
  CHECK(draw_confusion(metrics, numbers).png == unnamed.png);
}

TEST_CASE("confusion picture: counts stand in the middle of their cells") {
  engine::Metrics metrics;
  metrics.classes = 2;
  metrics.confusion = make_confusion({8, 0, /**/ 0, 0});
  const Picture picture = draw_confusion(metrics, {"a", "b"});
  int width = 0, height = 0, channels = 0;
  stbi_uc* pixels = stbi_load_from_memory(picture.png.data(), static_cast<int>(picture.png.size()),
                                          &width, &height, &channels, 3);
  REQUIRE(pixels != nullptr);
  int left = picture.cell, right = -1, top = picture.cell, bottom = -1;
  for (int y = 0; y < picture.cell; ++y) {
    for (int x = 0; x < picture.cell; ++x) {
      const stbi_uc* pixel = pixels + ((picture.top + y) * width + picture.left + x) * 3;
      if (pixel[0] + pixel[1] + pixel[2] < 3 * 255) continue;  // white on the full colour
      left = std::min(left, x);
      right = std::max(right, x);
      top = std::min(top, y);
      bottom = std::max(bottom, y);
    }
  }
  stbi_image_free(pixels);
  REQUIRE(right > left);
  CHECK(std::abs(left + right - (picture.cell - 1)) <= 2);
  CHECK(std::abs(top + bottom - (picture.cell - 1)) <= 2);
}

TEST_CASE("confusion picture: names are beside the cells and counts in them") {
  engine::Metrics metrics;
  metrics.classes = 2;
  metrics.confusion = make_confusion({1234567, 1, /**/ 0, 0});
  const auto dark_pixels = [&](const Picture& picture, int x, int y, int width, int height) {
    int all_width = 0, all_height = 0, channels = 0, dark = 0;
    stbi_uc* pixels =
        stbi_load_from_memory(picture.png.data(), static_cast<int>(picture.png.size()), &all_width,
                              &all_height, &channels, 3);
    REQUIRE(pixels != nullptr);
    for (int row = y; row < y + height; ++row) {
      for (int column = x; column < x + width; ++column) {
        const stbi_uc* pixel = pixels + (row * all_width + column) * 3;
        dark += pixel[0] + pixel[1] + pixel[2] == 0 ? 1 : 0;
      }
    }
    stbi_image_free(pixels);
    return dark;
  };
  const Picture picture = draw_confusion(metrics, {"a cat", "d\xC3\xB6g"});
  const int cell = picture.cell, left = picture.left, top = picture.top;
  CHECK(cell > 45);  // the largest count fits
  CHECK(left == top);
  for (int c = 0; c < 2; ++c) {
    CHECK(dark_pixels(picture, 0, top + c * cell, left, cell) > 10);
    CHECK(dark_pixels(picture, left + c * cell, 14, cell, top - 14) > 10);
  }
  CHECK(dark_pixels(picture, left + cell, top, cell, cell) > 3);   // 1
  CHECK(dark_pixels(picture, left, top + cell, cell, cell) == 0);  // none
  // A wrong number of names is numbers.
  CHECK(draw_confusion(metrics, {"a"}).png == draw_confusion(metrics).png);
  CHECK(draw_confusion(metrics, {"a", "b"}).png != draw_confusion(metrics).png);
  CHECK(draw_confusion(metrics, {std::string(500, 'x'), "b"}).left < 160);
}

TEST_CASE("tensorboard: config, parameters, sample images and the end of a session are written") {
  const TemporaryFolder folder;
  TensorBoardOptions options{steps(100)};
  options.config = "name: digits\n";
  options.parameters = {{"optimizer.adam.learning_rate", "0.001"}, {"model.loss", "softmax"}};
  options.samples = [] { return draw_confusion(evaluation(Split::kTest, 1, 1).metrics).png; };
  const auto hook = make_tensorboard_hook(options);
  hook->on_start(run_info(folder.path()));
  hook->on_finish(finish(FinishReason::kDone, 7));
  const auto events = read_events(event_files(folder, "").at(0));
  REQUIRE(events.size() == 5);
  const auto compute_value = [&](std::size_t i) { return parse(parse(events[i].text(5)).text(1)); };
  const auto find_plugin = [&](std::size_t i) {
    return parse(parse(compute_value(i).text(9)).text(1));
  };
  CHECK(compute_value(2).text(1) == "config");
  CHECK(parse(compute_value(2).text(8)).text(8) == "```yaml\nname: digits\n```");
  CHECK(find_plugin(2).text(1) == "text");
  CHECK(compute_value(3).text(1) == "_hparams_/session_start_info");
  CHECK(find_plugin(3).text(1) == "hparams");
  const Message session = parse(parse(find_plugin(3).text(2)).text(3));
  REQUIRE(session.bytes.count(1) == 2);
  const Message rate = parse(session.text(1));
  CHECK(rate.text(1) == "optimizer.adam.learning_rate");
  CHECK(parse(rate.text(2)).as<double>(2) == 0.001);
  CHECK(parse(parse(std::next(session.bytes.find(1))->second).text(2)).text(3) == "softmax");
  CHECK(compute_value(4).text(1) == "_hparams_/session_end_info");
  CHECK(parse(parse(find_plugin(4).text(2)).text(4)).number(1) == 1);
  const auto of_train = read_events(event_files(folder, "train").at(0));
  REQUIRE(of_train.size() == 3);
  CHECK(label(of_train[2]) == "samples@0");

  // Not again after a resume, and nothing of an evaluator's own.
  const TemporaryFolder resumed, follower;
  const auto second = make_tensorboard_hook(options);
  second->on_start(run_info(resumed.path(), 4));
  CHECK(!std::filesystem::exists(resumed.path() / "tensorboard/train"));
  make_tensorboard_hook({steps(100)})->on_start(run_info(follower.path()));
  CHECK(!std::filesystem::exists(follower.path() / "tensorboard"));
}

TEST_CASE("confusion picture: many classes still fit, too many are left out") {
  engine::Metrics metrics;
  metrics.classes = 500;
  metrics.confusion = engine::Confusion(500);
  CHECK(draw_confusion(metrics).width == 1000);

  const TemporaryFolder folder;
  const auto hook = make_tensorboard_hook({steps(100)});
  hook->on_start(run_info(folder.path()));
  Evaluation e = evaluation(Split::kTest, 1, 1);
  e.metrics.classes = 1001;
  e.metrics.confusion = engine::Confusion(1001);
  e.metrics.confusion.add(0, 0, 4);
  hook->on_evaluation(e);
  CHECK(read_events(event_files(folder, "test").at(0)).size() == 7);
}

}  // namespace trainer::hooks
