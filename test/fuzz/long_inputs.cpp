// Inputs with one long name, line, label, key or number each. A dictionary of libFuzzer holds words
// of at most 64 bytes, and random changes do not grow a token a thousand times.
#include <cstdio>
#include <cstring>

#include "fuzz.h"

namespace trainer::fuzz {
namespace {

using Input = std::vector<std::uint8_t>;

Input make_input(const std::string& text) { return {text.begin(), text.end()}; }

// A safetensors file of one tensor of two numbers.
Input safetensors(const std::string& name, const std::string& metadata,
                  const std::string& dtype = "F32", const std::string& shape = "2") {
  const std::string header = R"({"__metadata__":{)" + metadata + R"(},")" + name +
                             R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
                             R"(],"data_offsets":[0,8]}})";
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  return make_input(file + header + "01234567");
}

// A member of a tar archive, padded to blocks.
std::string tar_member(const std::string& name, char kind, const std::string& content) {
  std::string header(512, '\0');
  std::snprintf(header.data(), 100, "%s", name.c_str());
  std::snprintf(header.data() + 100, 24, "%07o", 0644);
  std::snprintf(header.data() + 124, 12, "%011zo", content.size());
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  header[156] = kind;
  std::memset(header.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  std::string padded = content;
  padded.resize((content.size() + 511) / 512 * 512);
  return header + padded;
}

// An archive of stored entries of one byte.
std::string zip_archive(const std::vector<std::string>& names) {
  std::string archive, directory;
  const auto put = [](std::string& out, std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value & 255);
  };
  for (const std::string& name : names) {
    const auto place = static_cast<std::uint32_t>(archive.size());
    for (std::string* out : {&archive, &directory}) {
      const bool is_central = out == &directory;
      put(*out, is_central ? 0x02014b50 : 0x04034b50, 4);
      if (is_central) put(*out, 20, 2);
      put(*out, 20, 2);
      put(*out, 0, 8);           // flags, method and time
      put(*out, 0x8cdc1683, 4);  // the checksum of "x"
      put(*out, 1, 4);
      put(*out, 1, 4);
      put(*out, static_cast<std::uint32_t>(name.size()), 2);
      put(*out, 0, is_central ? 12 : 2);
      if (is_central) put(*out, place, 4);
      *out += name;
    }
    archive += 'x';
  }
  const auto start = static_cast<std::uint32_t>(archive.size());
  archive += directory;
  put(archive, 0x06054b50, 4);
  put(archive, 0, 4);
  put(archive, static_cast<std::uint32_t>(names.size()), 2);
  put(archive, static_cast<std::uint32_t>(names.size()), 2);
  put(archive, static_cast<std::uint32_t>(directory.size()), 4);
  put(archive, start, 4);
  put(archive, 0, 2);
  return archive;
}

void add(const std::string& target, const std::string& token, std::vector<Input>& inputs) {
  const auto text = [&](const std::string& content) { inputs.push_back(make_input(content)); };
  if (target == "safetensors" || target == "checkpoint" || target == "weights") {
    inputs.push_back(safetensors(token, ""));
    inputs.push_back(safetensors("normalization_" + token + "/0", ""));
    inputs.push_back(safetensors("a", '"' + token + R"(":"b")"));
    inputs.push_back(safetensors("a", R"("config":")" + token + R"(","step":")" + token + '"'));
    inputs.push_back(safetensors("a", R"("config":"name: )" + token + '"'));
    inputs.push_back(safetensors("a", "", token));
    inputs.push_back(safetensors("a", "", "F32", std::string(token.size(), '1')));
  } else if (target == "yaml") {
    const std::string rest = "model: {layers: [flatten, dense: 10]}\ndata: {format: digits}\n";
    text("name: " + token + "\n" + rest);
    text(token + ": 1\n" + rest);
    text(rest + token + ":b\n");
    text(rest + "run:" + token + "\n  dir: x\n");
    text("seed: " + std::string(token.size(), '1') + "\n" + rest);
    text("name: \"" + token + "\n" + rest);
    text("# " + token + "\nname: ${" + token + "}\n" + rest);
  } else if (target == "set") {
    text(token + "=1\n");
    text("name=" + token + "\n");
    text("seed=" + std::string(token.size(), '1') + "\n");
    text("model.layers[" + std::string(token.size(), '1') + "].dense=1\n");
  } else if (target == "csv") {
    text("path,label\na.png," + token + "\nb.png,cat\n");
    text("path,label\n" + token + ",cat\n");
    text("path," + token + "\na.png,cat\n");
    text("path,label\na.png," + std::string(token.size(), '1') + "\n");
    text("path,label\n\"" + token);
  } else if (target == "relabel") {
    text("path,label\n" + token + ",cat\n");
    text("path,label\nphotos/cat/1.png," + token + "\n");
    text("path,label," + token + "\n1.png,cat,\n");
    text("path,label\ncat/1.png," + std::string(token.size(), '0') + "\n");
  } else if (target == "zip") {
    const std::string name = token.substr(0, 65'000);
    text(zip_archive({"cat/1.png", "cat/" + name + "/2.png"}));
    text(zip_archive({"cat/1.png", name + "/2.png"}));
    text(zip_archive({"cat/1.png", "cat/" + name}));
  } else if (target == "tar") {
    text(tar_member("././@LongLink", 'L', token) + tar_member("a.png", '0', "x") +
         std::string(1024, '\0'));
    text(tar_member("a.png", '0', "x") + tar_member("a.cls", '0', token) + std::string(1024, '\0'));
  } else if (target == "environment") {
    text(R"(TF_CONFIG={"cluster":{"worker":[")" + token +
         R"(:1"]},"task":{"type":"worker","index":0}})");
    text(R"(TF_CONFIG={"cluster":{")" + token + R"(":["a:1"]}})");
    text("RANK=" + std::string(token.size(), '1') + "\nWORLD_SIZE=2\n");
    text("SLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=" + token + "[1-2]\n");
    text("SLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NODELIST=n[" +
         std::string(token.size(), '1') + "]\n");
  } else if (target == "metrics") {
    const std::string start = R"({"name":"a","classes":["x","y"],"sessions":[{"seconds":2.5}])";
    text(std::string(1, '\0') + R"({"name":")" + token + R"(","classes":["x"],"sessions":[]})");
    text(std::string(1, '\0') + start + ",\"" + token + "\":1}");
    text("\1step,epoch,split,loss," + token + "\n1,0.5,train,2.3,1\n");
    text("\1step,epoch,split,loss\n1,0.5," + token + ",2.3\n");
    text("\2step,samples,loss\n1,32," + std::string(token.size(), '1') + "\n");
  }
}

}  // namespace

std::vector<Input> long_inputs(const std::string& target) {
  std::vector<Input> inputs;
  for (const std::size_t bytes : {std::size_t{1} << 16, std::size_t{300'000}}) {
    for (const char* word : {"a", "Aa", "1_", " ", "a/", "\\u0041"}) {
      std::string token;
      while (token.size() < bytes) token += word;
      add(target, token, inputs);
    }
  }
  return inputs;
}

}  // namespace trainer::fuzz
