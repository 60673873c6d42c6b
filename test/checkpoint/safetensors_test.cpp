#include "checkpoint/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "checkpoint/average.h"
#include "checkpoint/keras.h"
#include "checkpoint/store.h"
#include "support/write_unsynced.h"

namespace trainer::checkpoint {
namespace {

std::vector<Tensor> some_tensors() {
  return {{"z/kernel", Shape{2, 3}, {1, -2, 3.5f, 0, 1e-30f, 6}},
          {"a/bias", Shape{3}, {0.25f, -0.0f, std::numeric_limits<float>::infinity()}},
          {"scalar", Shape{}, {42}},
          {"empty", Shape{0, 4}, {}}};
}

// A safetensors file put together by hand.
Path write_raw(const TemporaryFolder& folder, const std::string& header, std::string_view data) {
  std::string content(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(content.data(), &length, 8);
  const Path path = folder.path() / "raw.safetensors";
  write_file_atomic(path, content + header + std::string(data));
  return path;
}

template <class T>
std::string raw_bytes(std::initializer_list<T> values) {
  std::string text;
  for (const T value : values) text.append(reinterpret_cast<const char*>(&value), sizeof value);
  return text;
}

}  // namespace

TEST_CASE("write_safetensors: tensors and metadata are read back bit by bit in their order") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.safetensors";
  const auto tensors = some_tensors();
  write_safetensors(path, tensors, {{"step", "100"}, {"classes", "[\"cat\",\"dög\"]"}});
  const TensorFile file = read_safetensors(path);
  REQUIRE(file.tensors.size() == tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(file.tensors[i].name == tensors[i].name);
    CHECK(file.tensors[i].shape == tensors[i].shape);
    REQUIRE(file.tensors[i].values.size() == tensors[i].values.size());
    if (tensors[i].values.empty()) continue;
    CHECK(std::memcmp(file.tensors[i].values.data(), tensors[i].values.data(),
                      tensors[i].values.size() * sizeof(float)) == 0);
  }
  CHECK(file.metadata.at("step") == "100");
  CHECK(file.metadata.at("classes") == "[\"cat\",\"dög\"]");
  CHECK(file.metadata.at("sha256").size() == 64);
  CHECK(file.metadata.count("trainer") == 1);
}

TEST_CASE("read_safetensors checks metadata of any text as the version of the format requires") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.safetensors";
  write_safetensors(path, {{"w", Shape{2}, {1, 2}}}, {{"config", "path: caf\xe9\n"}});
  CHECK(read_safetensors(path).metadata.at("config") == "path: caf\xef\xbf\xbd\n");

  // A file of version 1 has no checksum of its header, one of version 3 is not for this program.
  const auto of_version = [&](const char* version) {
    return write_raw(folder,
                     concat(R"({"__metadata__":{"trainer":")", version, R"(","step":"7"},)",
                            R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})"),
                     raw_bytes<float>({1}));
  };
  CHECK(read_safetensors(of_version("1")).metadata.at("step") == "7");
  CHECK_THROWS_WITH_AS(read_safetensors(of_version("2")),
                       doctest::Contains("checksum of its header"), DataError);
  CHECK_THROWS_WITH_AS(read_safetensors(of_version("3")), doctest::Contains("format version '3'"),
                       DataError);
}

TEST_CASE("write_safetensors writes the published layout") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.safetensors";
  write_safetensors(path, {{"w", Shape{2}, {1, 2}}}, {});
  const Bytes bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(bytes.size() == 8 + length + 8);
  const std::string header(bytes.begin() + 8, bytes.begin() + 8 + static_cast<long>(length));
  CHECK(header.front() == '{');
  CHECK(header.find(R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})") !=
        std::string::npos);
}

TEST_CASE("read_safetensors converts float16, bfloat16 and double tensors to float") {
  const TemporaryFolder folder;
  const std::string header = R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
                             R"("d":{"dtype":"F64","shape":[1],"data_offsets":[12,20]}})";
  const std::string data = raw_bytes<std::uint16_t>({0x3C00, 0xC000, 0x0001, 0x7C00}) +
                           raw_bytes<std::uint16_t>({0x3F80, 0xC049}) + raw_bytes<double>({0.1});
  const TensorFile file = read_safetensors(write_raw(folder, header, data));
  REQUIRE(file.tensors.size() == 3);
  CHECK(file.tensors[0].values ==
        std::vector<float>{1, -2, 0x1p-24f, std::numeric_limits<float>::infinity()});
  CHECK(file.tensors[1].values == std::vector<float>{1, -3.140625f});
  CHECK(file.tensors[2].values == std::vector<float>{0.1f});
}

TEST_CASE("read_safetensors converts integers to float and marks them") {
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"I32","shape":[1],"data_offsets":[8,12]},)"
                             R"("c":{"dtype":"U16","shape":[1],"data_offsets":[12,14]},)"
                             R"("d":{"dtype":"I8","shape":[2],"data_offsets":[14,16]},)"
                             R"("e":{"dtype":"BOOL","shape":[1],"data_offsets":[16,17]},)"
                             R"("f":{"dtype":"F32","shape":[1],"data_offsets":[17,21]}})";
  const std::string data = raw_bytes<std::int64_t>({-70000}) + raw_bytes<std::int32_t>({-5}) +
                           raw_bytes<std::uint16_t>({65535}) + raw_bytes<std::int8_t>({-1, 127}) +
                           raw_bytes<std::uint8_t>({1}) + raw_bytes<float>({0.5f});
  const TensorFile file = read_safetensors(write_raw(folder, header, data));
  const std::vector<std::vector<float>> expected{{-70000}, {-5}, {65535}, {-1, 127}, {1}, {0.5f}};
  REQUIRE(file.tensors.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(file.tensors[i].values == expected[i]);
    CHECK(file.tensors[i].is_integer == (file.tensors[i].name != "f"));
  }
}

TEST_CASE("read_safetensors rejects any changed byte and any cut") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.safetensors";
  write_safetensors(path, some_tensors(), {{"step", "7"}});
  const Bytes whole = read_file(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes damaged = whole;
    damaged[i] ^= 0x41;
    test::write_unsynced(path, damaged);
    CAPTURE(i);
    CHECK_THROWS_AS(read_safetensors(path), DataError);
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    test::write_unsynced(path, std::span(whole).first(size));
    CHECK_THROWS_AS(read_safetensors(path), DataError);
  }
  Bytes longer = whole;
  longer.push_back(0);
  test::write_unsynced(path, longer);
  CHECK_THROWS_WITH_AS(read_safetensors(path), doctest::Contains("end at byte"), DataError);
}

TEST_CASE("read_safetensors gives the reason for headers that contradict themselves or the file") {
  const TemporaryFolder folder;
  const auto refuses = [&](const std::string& header, const char* why) {
    CAPTURE(header);
    const Path path = write_raw(folder, header, "01234567");
    CHECK_THROWS_WITH_AS(read_safetensors(path), doctest::Contains(why), DataError);
  };
  refuses(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          "tensor b: overlaps");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "leaves a gap");
  refuses(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "truncated");
  refuses(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "needs 12 bytes");
  refuses(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "end at byte 4 of 8");
  refuses(R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", "has the type C64");
  refuses(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "shape");
  refuses(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})",
          "impossibly large");
  refuses(R"({"a":{"dtype":"F32","shape":[2]}})", "tensor a: needs");
  refuses(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
          R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
          "twice");
  refuses(R"({"a": nonsense})", "not valid JSON");

  std::string huge(8, '\xff');
  write_file_atomic(folder.path() / "huge", huge + "{}      ");
  CHECK_THROWS_WITH_AS(read_safetensors(folder.path() / "huge"), doctest::Contains("limit"),
                       DataError);
}

TEST_CASE("read_checkpoint rejects a file without a checksum") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "a.safetensors";
  write_safetensors(path, some_tensors(), {{"step", "1"}});
  CHECK(read_checkpoint(path).metadata.at("step") == "1");

  const std::string tensor = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  for (const char* metadata :
       {R"({"step":"1","config":"seed: 1"})", R"({"step":"1","config":"seed: 1","trainer":"1"})",
        R"({"format":"pt"})"}) {
    CAPTURE(metadata);
    const Path raw =
        write_raw(folder, std::string(R"({"__metadata__":)") + metadata + "," + tensor, "01234567");
    CHECK_THROWS_WITH_AS(read_checkpoint(raw), doctest::Contains("has no header_sha256"),
                         DataError);
    CHECK(read_safetensors(raw).tensors.size() == 1);  // as weights of another program
    std::vector<std::string> warnings;
    CHECK_THROWS_AS(load_last(raw, warnings), DataError);
    const Path best = folder.path() / "run" / "checkpoints" / "best.safetensors";
    std::filesystem::create_directories(best.parent_path());
    for (const char* name : {"best.safetensors", "step-00000001.safetensors"}) {
      std::filesystem::copy_file(raw, best.parent_path() / name,
                                 std::filesystem::copy_options::overwrite_existing);
    }
    CHECK_THROWS_AS(load_best(folder.path() / "run"), DataError);
    CHECK_THROWS_AS(load_last(folder.path() / "run", warnings), DataError);
    CHECK_THROWS_AS(average_checkpoints(last_checkpoints(folder.path() / "run", 1)), Error);
  }
}

TEST_CASE("load names the kind of a file of another kind") {
  const TemporaryFolder folder;
  std::vector<std::string> warnings;
  const auto is = [&](const char* name, std::string_view content, const char* kind) {
    const Path path = folder.path() / name;
    write_file_atomic(path, content);
    CHECK_THROWS_WITH_AS(load_last(path, warnings), doctest::Contains(kind), DataError);
  };
  using namespace std::string_view_literals;
  is("a.h5", "\x89HDF\r\n\x1a\n and more"sv, "is an HDF5 file");
  is("a.yaml", "name: x\nmodel:\n", "is a YAML file");
  is("a.npz", "PK\x03\x04 and more"sv, "is a zip archive");
  is("a.gz", "\x1f\x8b\x08 and more more"sv, "is a gzip file");
  is("a.txt", "hello, this is a text", "is a text file");
  is("empty", "", "is an empty file");
  is("a.png", "\x89PNG\r\n\x1a\n123456", "is a PNG image");
}

TEST_CASE("snake_case returns the names that Keras gives to the layers of its classes") {
  const std::pair<const char*, const char*> kNames[] = {
      {"Conv2D", "conv2d"},
      {"DepthwiseConv2D", "depthwise_conv2d"},
      {"BatchNormalization", "batch_normalization"},
      {"ReLU", "re_lu"},
      {"PReLU", "p_re_lu"},
      {"MaxPooling2D", "max_pooling2d"},
      {"GlobalAveragePooling2D", "global_average_pooling2d"},
      {"ELU", "elu"},
      {"GRUCell", "gru_cell"},
      {"a", "a"},
      {"", ""},
      {"UpSampling2D", "up_sampling2d"},
      {"ABCDef", "abc_def"},
      {"aBcD", "a_bc_d"}};
  for (const auto& [name, expected] : kNames) CHECK(snake_case(name) == expected);
  CHECK(snake_case(std::string(300'000, 'A')) == std::string(300'000, 'a'));
}

TEST_CASE("sha256_of: the order of the list does not matter, names and values do") {
  auto tensors = some_tensors();
  const std::string digest = sha256_of(tensors);
  std::swap(tensors[0], tensors[2]);
  CHECK(sha256_of(tensors) == digest);
  tensors[0].values[0] += 1;
  CHECK(sha256_of(tensors) != digest);
  // Nothing but the bytes of 1.0f.
  CHECK(sha256_of({{"w", Shape{1}, {1}}}) ==
        "e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c");
}

TEST_CASE("safetensors: a header of more entries than any model has is an error") {
  const TemporaryFolder folder;
  const auto build_header = [](int count) {
    std::string header = "{";
    for (int i = 0; i < count; ++i) {
      header += concat(i > 0 ? "," : "", "\"", i,
                       R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})");
    }
    return header + "}";
  };
  CHECK(read_safetensors(write_raw(folder, build_header(20'000), "")).tensors.size() == 20'000);
  CHECK_THROWS_WITH_AS(read_safetensors(write_raw(folder, build_header(100'002), "")),
                       doctest::Contains("more than 100000 tensors"), DataError);
}

TEST_CASE("safetensors: two tensors of the same name are not written") {
  const TemporaryFolder folder;
  const Tensor tensor{"w", Shape{1}, {1}};
  CHECK_THROWS_AS(write_safetensors(folder.path() / "a.safetensors", {tensor, tensor}, {}),
                  std::logic_error);
}

}  // namespace trainer::checkpoint
