#include "cuda/fake_runtime/nccl/mailbox.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace fake {
namespace {

// Nobody sees a part of a file.
void write_whole(const std::string& path, const std::string& what,
                 const std::vector<char>& values) {
  const std::string temporary = path + "." + std::to_string(::getpid());
  {
    std::ofstream out(temporary, std::ios::binary);
    out << what << '\n';
    out.write(values.data(), static_cast<std::streamsize>(values.size()));
    if (!out.flush()) throw std::runtime_error("fake NCCL: cannot write " + temporary);
  }
  std::filesystem::rename(temporary, path);
}

}  // namespace

std::unique_ptr<Mailbox> Mailbox::open(const std::string& id) {
  const char* folder = std::getenv("TRAINER_FAKE_NCCL_FOLDER");
  if (folder == nullptr || *folder == 0) return nullptr;
  return std::unique_ptr<Mailbox>(new Mailbox(std::string(folder) + "/" + id + "."));
}

std::string Mailbox::file(const std::string& name, int rank) const {
  return prefix_ + name + "." + std::to_string(rank);
}

void Mailbox::join(int rank) const { write_whole(file("joined", rank), "", {}); }

bool Mailbox::has_joined(int rank) const {
  return ::access(file("joined", rank).c_str(), F_OK) == 0;
}

void Mailbox::give(std::size_t call, int rank, const std::string& what,
                   const std::vector<char>& values) const {
  write_whole(file(std::to_string(call), rank), what, values);
}

std::optional<Mailbox::Gift> Mailbox::taken(std::size_t call, int rank) const {
  std::ifstream in(file(std::to_string(call), rank), std::ios::binary);
  if (!in) return std::nullopt;
  Gift gift;
  std::getline(in, gift.what);
  gift.values.assign(std::istreambuf_iterator<char>(in), {});
  return gift;
}

}  // namespace fake
