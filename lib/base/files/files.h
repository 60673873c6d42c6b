// Files: whole reads, atomic writes, checksums. Every file the program leaves goes through here or
// follows the same rule: written under a temporary name, synced, renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/progress.h"

namespace trainer {

using Path = std::filesystem::path;
using Bytes = std::vector<std::uint8_t>;

// Throws DataError unless `path`, or the target of that link, is a regular file: opening a FIFO
// would wait for a writer.
void check_regular_file(const Path& path);

// Return whether the path, or the target of that link, is a regular file, or exists at all; false
// also for a path in a folder that cannot be searched.
bool is_file(const Path& path);
bool path_exists(const Path& path);

// Returns the whole regular file. Throws DataError naming the path and the system's reason.
Bytes read_file(const Path& path);
std::string read_text_file(const Path& path);
// Reads the file into the memory that `allocate` returns for a number of bytes, and returns the
// number of bytes read: fewer where the file is cut meanwhile. Throws as the overload above.
std::size_t read_file(const Path& path, const std::function<std::uint8_t*(std::size_t)>& allocate);
// Returns the first `size` bytes, or fewer of a smaller file, to recognise the kind of the file.
Bytes read_file_start(const Path& path, std::size_t size);

// Throws ConfigError when `path`, given with the command line's `option`, is a folder, or is a
// regular file and `overwrite` is false.
void check_output_path(const std::string& option, const Path& path, bool overwrite);

// Writes to "<path>.tmp.<host>.<pid>", syncs the file, renames it over `path`, syncs the folder. On
// any failure removes the temporary file and throws DataError; `path` then is what it was before. A
// link stays and its target is replaced. A device, FIFO or socket is written to, because the rename
// would replace it. Removes temporary files that killed writers left in the folder: those of
// processes of this host that are gone, and those to which nothing was written for a day.
void write_file_atomic(const Path& path, std::span<const std::uint8_t> content);
void write_file_atomic(const Path& path, std::string_view content);
// Overload for content in several pieces, so that a large file needs no second copy in memory.
using Pieces = std::vector<std::span<const std::uint8_t>>;
// `progress` advances with the bytes.
void write_file_atomic(const Path& path, const Pieces& pieces, const Progress& progress = {});

// A file that is written in pieces. commit() puts it at `path`, as write_file_atomic() does;
// without commit() `path` stays what it was. Until then the file has no name (O_TMPFILE), where the
// file system allows that: a write may take minutes, and a killed writer leaves nothing. A device,
// FIFO or socket is written to at once. The constructor, write() and commit() throw DataError.
// write() after commit() is not allowed. One thread at a time; two writers of one path in a process
// would share a temporary name.
class AtomicFileWriter {
 public:
  // kWhileWriting: "<path>.tmp.<host>.<pid>" from the start, which every file system allows.
  enum class TemporaryName { kAtCommit, kWhileWriting };
  explicit AtomicFileWriter(const Path& path, TemporaryName name = TemporaryName::kAtCommit);
  ~AtomicFileWriter();
  AtomicFileWriter(const AtomicFileWriter&) = delete;
  AtomicFileWriter& operator=(const AtomicFileWriter&) = delete;
  void write(std::span<const std::uint8_t> content);
  void commit();

 private:
  Path path_, temporary_;
  int fd_ = -1;
  bool is_regular_ = true;
  bool is_named_ = false;  // true if the file has the name temporary_
};

// Removes the temporary files that killed writers left in `folder`. Call it only while no other
// process writes there.
void remove_leftovers(const Path& folder);

// Flushes a file or folder to the disk. Throws DataError.
void sync_path(const Path& path);

// Returns the CRC-32C (Castagnoli) of iSCSI and TensorFlow's record files; crc32c("123456789") =
// 0xe3069283. `crc` is the CRC of the bytes before these.
std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t crc = 0);

// Computes a digest over several pieces. hex() returns the result and may be called once.
class Digest {
 public:
  enum class Algorithm { kMd5, kSha256 };
  explicit Digest(Algorithm algorithm);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void update(std::span<const std::uint8_t> bytes);
  std::string hex();  // lower-case hexadecimal digits

 private:
  void* context_;  // EVP_MD_CTX of libcrypto
};

// Return the digest of a whole file, which may be open already. Throw DataError, which names
// `path`.
std::string hash_file(const Path& path, Digest::Algorithm algorithm);
std::string hash_file(int descriptor, const Path& path, Digest::Algorithm algorithm);

class Sha256 : public Digest {
 public:
  Sha256() : Digest(Algorithm::kSha256) {}
};
// Return the SHA-256 of bytes, or of a text, in lower-case hexadecimal digits.
std::string sha256(std::span<const std::uint8_t> bytes);
std::string sha256(std::string_view text);

// Creates a folder below the system's temporary folder and removes it with all its content.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

}  // namespace trainer
