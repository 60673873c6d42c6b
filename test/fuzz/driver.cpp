// Runs one target without libFuzzer: all files of a folder, then so many changed ones, the same for
// the same seed. With libFuzzer this file is left out.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "base/files/files.h"
#include "fuzz.h"

namespace trainer::fuzz {
namespace {

using Input = std::vector<std::uint8_t>;

constexpr int kSecondsPerInput = 20;  // of processor time; a loaded machine does not count
constexpr std::size_t kMaxBytes = 1 << 16;

const Input* running = nullptr;

// Only what is safe in a signal handler.
void keep_input() {
  if (running == nullptr) return;
  const int file = ::open("fuzz-input", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  [[maybe_unused]] const auto written = ::write(file, running->data(), running->size());
  const char text[] = "the input lies in ./fuzz-input\n";
  [[maybe_unused]] const auto told = ::write(STDERR_FILENO, text, sizeof text - 1);
  running = nullptr;
}

void on_signal(int number) {
  if (number == SIGVTALRM) {
    const char text[] = "an input takes too long\n";
    [[maybe_unused]] const auto told = ::write(STDERR_FILENO, text, sizeof text - 1);
  }
  keep_input();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// A small change, as they happen to files: bits, bytes, numbers, words, parts doubled or lost,
// parts of another seed.
class Mutator {
 public:
  Mutator(const std::vector<Input>& seeds, const std::vector<Input>& words, std::uint64_t seed)
      : seeds_(seeds), words_(words), random_(seed) {}

  Input next() {
    Input input = seeds_.empty() ? Input{} : seeds_[below(seeds_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input);
    if (input.size() > kMaxBytes) input.resize(kMaxBytes);
    return input;
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  std::size_t place_in(const Input& input) { return below(input.size()); }

  void change(Input& input) {
    static constexpr std::uint64_t kNumbers[]{0,          1,          0x7f,       0x80,
                                              0xff,       0x7fff,     0xffff,     0x7fffffff,
                                              0x80000000, 0xffffffff, 1ull << 62, ~0ull};
    if (input.empty()) input.push_back(0);
    const std::size_t at = place_in(input);
    const auto from = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(9)) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1 << below(8));
        break;
      case 1:
        input[at] = static_cast<std::uint8_t>(random_());
        break;
      case 2:
        input[at] = static_cast<std::uint8_t>(input[at] + below(9) - 4);
        break;
      case 3: {  // a number, of either order of bytes
        const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
        const std::size_t width = std::size_t{1} << below(4);
        const bool big = below(2) == 0;
        for (std::size_t i = 0; i < width && at + i < input.size(); ++i) {
          input[at + i] = static_cast<std::uint8_t>(number >> 8 * (big ? width - 1 - i : i));
        }
        break;
      }
      case 4:
        input.resize(at);
        break;
      case 5:
        input.erase(from,
                    from + static_cast<std::ptrdiff_t>(std::min(input.size() - at, 1 + below(32))));
        break;
      case 6: {
        const Input part(
            from, from + static_cast<std::ptrdiff_t>(std::min(input.size() - at, 1 + below(64))));
        input.insert(input.begin() + static_cast<std::ptrdiff_t>(place_in(input)), part.begin(),
                     part.end());
        break;
      }
      case 7: {
        if (words_.empty()) break;
        const Input& word = words_[below(words_.size())];
        input.insert(from, word.begin(), word.end());
        break;
      }
      default: {
        const Input& other = seeds_.empty() ? input : seeds_[below(seeds_.size())];
        if (other.empty()) break;
        const std::size_t begin = below(other.size());
        const std::size_t bytes =
            std::min({other.size() - begin, input.size() - at, 1 + below(128)});
        std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(begin), bytes, from);
      }
    }
  }

  const std::vector<Input>& seeds_;
  const std::vector<Input>& words_;
  std::mt19937_64 random_;
};

Input read_content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// libFuzzer's: name="bytes", with \xNN and escaped quotes; # begins a comment.
std::vector<Input> read_words(const std::filesystem::path& path) {
  std::vector<Input> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find('"'), end = line.rfind('"');
    if (line.empty() || line[0] == '#' || begin == end) continue;
    Input word;
    for (std::size_t i = begin + 1; i < end; ++i) {
      if (line[i] != '\\') {
        word.push_back(static_cast<std::uint8_t>(line[i]));
      } else if (line[++i] == 'x') {
        word.push_back(static_cast<std::uint8_t>(std::stoi(line.substr(i + 1, 2), nullptr, 16)));
        i += 2;
      } else {
        word.push_back(static_cast<std::uint8_t>(line[i]));
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

void run(const Target& target, const Input& input) {
  const itimerval limit{{}, {kSecondsPerInput, 0}}, none{};
  ::setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  running = &input;
  target.run(input);
  running = nullptr;
  ::setitimer(ITIMER_VIRTUAL, &none, nullptr);
}

int run_all(const Target& target, const std::filesystem::path& given, long count,
            std::uint64_t seed) {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM}) {
    ::signal(number, on_signal);
  }
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(given)) {
    for (const auto& entry : std::filesystem::directory_iterator(given)) {
      if (entry.path().extension() != ".dict") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
  } else {
    paths.push_back(given);
  }
  std::vector<Input> seeds;
  for (const auto& path : paths) {
    seeds.push_back(read_content(path));
    run(target, seeds.back());
  }
  const std::vector<Input> words = read_words(given / "words.dict");
  Mutator mutator(seeds, words, seed);
  for (long i = 0; i < count; ++i) run(target, mutator.next());
  const std::vector<Input> tokens = count > 0 ? long_inputs(target.name) : std::vector<Input>{};
  for (const Input& input : tokens) run(target, input);
  std::cout << target.name << ": " << seeds.size() << " seeds, " << count << " changed, "
            << tokens.size() << " with long tokens\n";
  return seeds.empty() ? 1 : 0;
}

}  // namespace
}  // namespace trainer::fuzz

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " TARGET FOLDER_OR_FILE [INPUTS [SEED]]\n";
    return 2;
  }
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(trainer::fuzz::keep_input);
  }
  for (const trainer::fuzz::Target& target : trainer::fuzz::targets()) {
    if (target.name == std::string(argv[1])) {
      return trainer::fuzz::run_all(target, argv[2], argc > 3 ? std::stol(argv[3]) : 0,
                                    argc > 4 ? std::stoull(argv[4]) : 1);
    }
  }
  std::cerr << "no target '" << argv[1] << "'\n";
  return 2;
}
