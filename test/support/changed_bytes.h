// Tables of what a reader answers to a small file when its bytes are changed, one at a time, and
// when the file is cut. A check that is left out or turned round changes a count. The tables
// contain no words of a library, so that they hold with its other versions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "support/contains.h"
#include "support/golden.h"
#include "support/source_files.h"
#include "support/write_unsynced.h"

namespace trainer::test {

// In memory where there is a file system for it: thousands of files are written. A killed test
// leaves it, so that its name is one that scripts/campaign/faults.py takes for no loss: with
// "fuzz".
class MemoryFolder {
 public:
  MemoryFolder() {
    std::string name = "/dev/shm/trainer-fuzz-XXXXXX";
    path_ = ::mkdtemp(name.data()) != nullptr ? Path(name) : on_disk_.path();
  }
  ~MemoryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  const Path& path() const { return path_; }

 private:
  TemporaryFolder on_disk_;
  Path path_;
};

// Returns what is in a file as a short text, or throws an Error of the program.
using Reader = std::function<std::string(const Path&)>;

// How a byte is changed: in each of three ways, or in one of them, in turn.
enum class Changes { kThreePerByte, kOnePerByte };

class Answers {
 public:
  // `ending` is that of the file's name, which some readers go by.
  Answers(Reader read, const std::string& ending, Changes changes)
      : read_(std::move(read)), path_(folder_.path() / ("x" + ending)), changes_(changes) {}

  // Changes some bits of each byte, and cuts the file before every seventh.
  std::string of(const Bytes& file) {
    constexpr int kBits[] = {0x01, 0x14, 0x80};
    counts_.clear();
    different_.clear();
    unchanged_ = answers_to(file).front();
    add(file);
    for (std::size_t i = 0; i < file.size(); ++i) {
      if (is_filling(file, i) && i % 16 != 0) continue;
      for (std::size_t way = 0; way < std::size(kBits); ++way) {
        if (changes_ == Changes::kOnePerByte && way != i % std::size(kBits)) continue;
        Bytes changed = file;
        changed[i] = static_cast<std::uint8_t>(changed[i] ^ kBits[way]);
        add(changed);
      }
      if (i % 7 == 0) add(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(i)));
    }
    std::ostringstream out;
    for (const auto& [answer, count] : counts_) out << "  " << count << "  " << answer << '\n';
    out << "  different answers: " << different_.size() << '\n';
    return out.str();
  }

 private:
  // True if the eight bytes on either side are the same, as in the zeros that fill a block.
  static bool is_filling(const Bytes& file, std::size_t at) {
    constexpr std::size_t kAround = 8;
    if (at < kAround || at + kAround >= file.size()) return false;
    const auto first = file.begin() + static_cast<std::ptrdiff_t>(at - kAround);
    return std::all_of(first, first + 2 * kAround + 1,
                       [&](std::uint8_t byte) { return byte == file[at]; });
  }

  void add(const Bytes& file) {
    for (const std::string& answer : answers_to(file)) {
      ++counts_[classify(answer)];
      different_.insert(answer);
    }
  }

  // The line of the table that counts an answer.
  std::string classify(const std::string& answer) const {
    if (answer.starts_with(kRead)) {
      return answer == unchanged_ ? "read, as the unchanged file" : "read, with other content";
    }
    return without_names(answer.substr(0, answer.find('\n'))).substr(0, kMaxLetters);
  }

  // The content that was read, or the message of each error.
  std::vector<std::string> answers_to(const Bytes& file) const {
    write_unsynced(path_, std::span<const std::uint8_t>(file));
    std::vector<std::string> answers;
    try {
      answers.push_back(kRead + read_(path_));
    } catch (const ConfigError& error) {
      for (const Diagnostic& one : error.diagnostics()) answers.push_back(to_string(one));
    } catch (const Error& error) {
      answers.emplace_back(error.what());
    }
    for (std::string& answer : answers) answer = without_libraries(without_folder(answer));
    return answers;
  }

  std::string without_folder(std::string text) const {
    const std::string folder = folder_.path().string() + '/';
    for (std::size_t at; (at = text.find(folder)) != std::string::npos;) {
      text.erase(at, folder.size());
    }
    return text;
  }

  // Parsers differ in their words and in where they stop; a damaged stream that one decompressor
  // rejects is unpacked to something else by another.
  static std::string without_libraries(std::string text) {
    for (const char* const refusal : {"not JSON", "not valid YAML"}) {
      if (contains(text, refusal)) return refusal;
    }
    for (const std::string damage :
         {"is damaged: a member cannot be decompressed; fetch the file again",
          "its checksum does not match: the file is damaged"}) {
      const std::size_t at = text.find(damage);
      if (at != std::string::npos) return text.replace(at, damage.size(), "its bytes are damaged");
    }
    return text;
  }

  // A text in which words of more than letters, and what is quoted, are a '#'.
  static std::string without_names(const std::string& text) {
    std::string out, word;
    bool quoted = false;
    const auto end_word = [&] {
      const bool plain = word.find_first_not_of(kLetters) == std::string::npos;
      out += word.empty() || plain ? word : "#";
      word.clear();
    };
    for (const char c : text) {
      if (c == '\'') {
        end_word();
        if (quoted) out += "'#'";
        quoted = !quoted;
      } else if (quoted) {
        continue;
      } else if (c == ' ') {
        end_word();
        out += c;
      } else {
        word += c;
      }
    }
    end_word();
    return out;
  }
  static constexpr const char* kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,:;()-";
  static constexpr const char* kRead = "read: ";
  static constexpr std::size_t kMaxLetters = 110;

  Reader read_;
  MemoryFolder folder_;
  Path path_;
  Changes changes_;
  std::map<std::string, int> counts_;
  std::set<std::string> different_;
  std::string unchanged_;  // the first answer to the unchanged file
};

// Compares the answers to all files of a folder of the source tree whose names end so with
// test/golden/changed_bytes/<name>.txt.
inline void check_answers(const std::string& name, const std::string& folder,
                          const std::vector<std::string>& endings, const Reader& read,
                          Changes changes = Changes::kThreePerByte) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source_file(folder))) {
    for (const std::string& ending : endings) {
      if (entry.path().string().ends_with(ending) && entry.path().extension() != ".dict") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const Path& file : files) {
    text += file.filename().string() + "\n";
    text += Answers(read, file.extension().string(), changes).of(read_file(file));
  }
  check_golden("changed_bytes/" + name + ".txt", text);
}

}  // namespace trainer::test
