#include "base/files/files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/files/sync.h"
#include "base/process/process.h"
#include "base/system_error.h"
#include "base/text.h"

namespace trainer {
namespace {

std::string reason() { return describe_system_error(errno); }

// Returns the path for messages, as one line whatever the name of the file is.
std::string name_of(const Path& path) { return printable(path.string()); }

// A file that cannot be opened because of a limit may be undamaged: the error is not a DataError,
// after which a caller would skip the file.
[[noreturn]] void fail_to_open(const Path& path) {
  const int error = errno;
  const std::string message = "cannot open: " + describe_system_error(error);
  if (is_open_file_limit(error)) throw Error(kExitData, name_of(path), ": ", message);
  throw DataError(name_of(path), message);
}

[[noreturn]] void fail_with(const Path& path, const char* what, int error) {
  throw DataError(name_of(path), what, describe_system_error(error));
}

void expect_regular(const Path& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return;
  const char* kind = S_ISDIR(info.st_mode)    ? "folder"
                     : S_ISFIFO(info.st_mode) ? "FIFO"
                     : S_ISSOCK(info.st_mode) ? "socket"
                                              : "device";
  throw DataError(name_of(path), "is a ", kind, ", expected a file");
}

// Reads the first `most` bytes, or fewer of a smaller file.
std::size_t read_start(const Path& path, std::size_t max_bytes,
                       const std::function<std::uint8_t*(std::size_t)>& allocate) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer before its type can be checked.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_to_open(path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw DataError(name_of(path), "cannot stat: " + reason());
  expect_regular(path, info);
  const std::size_t size = std::min<std::size_t>(max_bytes, info.st_size);
  std::uint8_t* memory = allocate(size);
  const Moved read = move_all(
      size, [&](std::size_t done) { return ::read(file.get(), memory + done, size - done); });
  if (read.error != 0) fail_with(path, "cannot read: ", read.error);
  return read.bytes;
}

template <class Content>
Content read_all(const Path& path,
                 std::size_t max_bytes = std::numeric_limits<std::size_t>::max()) {
  Content content;
  const std::size_t size = read_start(path, max_bytes, [&](std::size_t bytes) {
    content.resize(bytes);
    return reinterpret_cast<std::uint8_t*>(content.data());
  });
  content.resize(size);
  return content;
}

constexpr const char* kTemporaryMark = ".tmp.";
constexpr const char* kNotSynced = "cannot sync to the disk: ";

Path parent_folder(const Path& path) {
  return path.has_parent_path() ? path.parent_path() : Path(".");
}

bool process_exists(pid_t pid) { return ::kill(pid, 0) == 0 || errno == EPERM; }

// The process that writes a temporary file.
struct Writer {
  std::string host;
  pid_t pid = 0;
};

// Returns the writer that the name of a temporary file has; nothing for other names.
std::optional<Writer> parse_writer(const std::string& name) {
  const std::size_t mark = name.rfind(kTemporaryMark), dot = name.rfind('.');
  if (mark == std::string::npos) return std::nullopt;
  const std::size_t host = mark + std::strlen(kTemporaryMark);
  if (dot <= host) return std::nullopt;
  const std::int64_t pid = parse_integer(std::string_view(name).substr(dot + 1)).value_or(0);
  if (pid <= 0 || pid > std::numeric_limits<pid_t>::max()) return std::nullopt;
  return Writer{name.substr(host, dot - host), static_cast<pid_t>(pid)};
}

// Removes the temporary files of writers that were killed before their rename.
void remove_abandoned(const Path& folder) {
  const std::string here = host_name();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const auto writer = parse_writer(entry.path().filename().string());
    if (!writer || !std::filesystem::is_regular_file(entry.symlink_status(ignored))) continue;
    // The processes of another host are not visible.
    const auto age = std::filesystem::file_time_type::clock::now() -
                     std::filesystem::last_write_time(entry.path(), ignored);
    const bool is_gone = writer->host == here && !process_exists(writer->pid);
    if (ignored || !(is_gone || age > std::chrono::hours(24))) continue;
    std::filesystem::remove(entry.path(), ignored);
  }
}

// Returns the target of a link, which need not exist, and any other path unchanged.
Path resolve_links(Path path) {
  std::error_code error;
  for (int links = 0; links < 40; ++links) {
    const Path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;
  }
  return path;
}

// Returns whether the path names a device, FIFO or socket, which is written to and not replaced.
// Throws DataError for a folder.
bool is_special_file(const Path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status))
    throw DataError(name_of(path), "is a folder, expected a file");
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

Path make_temporary_name(const Path& path) {
  return concat(path.string(), kTemporaryMark, host_name(), ".", ::getpid());
}

void rename_into_place(const Path& temporary, const Path& path) {
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    throw DataError(name_of(path), "cannot rename into place: " + reason());
  }
}

// Returns the path by which linkat() finds a file that has no name.
std::string link_source(int fd) { return concat("/proc/self/fd/", fd); }

// Opens a new file without a name in the folder; returns -1 where the system cannot.
int open_without_name(const Path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0 || ::access(link_source(fd).c_str(), F_OK) == 0) return fd;
  ::close(fd);
  return -1;
}

constexpr std::array<std::array<std::uint32_t, 256>, 8> make_crc_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    tables[0][i] = crc;
  }
  for (std::uint32_t i = 0; i < 256; ++i) {
    for (std::size_t t = 1; t < 8; ++t) {
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xFF];
    }
  }
  return tables;
}

constexpr auto kCrcTables = make_crc_tables();

}  // namespace

bool is_file(const Path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

bool path_exists(const Path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

Bytes read_file(const Path& path) { return read_all<Bytes>(path); }
std::string read_text_file(const Path& path) { return read_all<std::string>(path); }
std::size_t read_file(const Path& path, const std::function<std::uint8_t*(std::size_t)>& allocate) {
  return read_start(path, std::numeric_limits<std::size_t>::max(), allocate);
}
Bytes read_file_start(const Path& path, std::size_t size) { return read_all<Bytes>(path, size); }

Descriptor open_regular_file(const Path& path) {
  check_regular_file(path);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_to_open(path);
  return file;
}

void sync_path(const Path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const int error = file ? sync_descriptor(file.get()) : errno;
  if (error != 0) fail_with(path, kNotSynced, error);
}

void check_regular_file(const Path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw DataError(name_of(path), "cannot open: " + reason());
  expect_regular(path, info);
}

void check_output_path(const std::string& option, const Path& path, bool overwrite) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) {
    throw ConfigError({}, option, ' ', printable(path.string()), " is a folder; name a file");
  }
  if (std::filesystem::is_regular_file(status) && !overwrite) {
    throw ConfigError({}, option, ' ', printable(path.string()),
                      " exists; replace it with --overwrite, or name another file");
  }
}

void write_file_atomic(const Path& path, const Pieces& pieces, const Progress& progress) {
  constexpr std::size_t kBytesAtOnce = std::size_t{16} << 20;
  AtomicFileWriter file(path, AtomicFileWriter::TemporaryName::kWhileWriting);
  for (auto piece : pieces) {
    while (!piece.empty()) {
      const auto part = piece.first(std::min(piece.size(), kBytesAtOnce));
      file.write(part);
      progress.advance();
      piece = piece.subspan(part.size());
    }
  }
  file.commit();
}

void write_file_atomic(const Path& path, std::span<const std::uint8_t> content) {
  write_file_atomic(path, Pieces{content});
}

void write_file_atomic(const Path& path, std::string_view content) {
  write_file_atomic(
      path, std::span(reinterpret_cast<const std::uint8_t*>(content.data()), content.size()));
}

AtomicFileWriter::AtomicFileWriter(const Path& path, TemporaryName name)
    : path_(path), is_regular_(!is_special_file(path)) {
  if (!is_regular_) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) throw DataError(name_of(path_), "cannot open: " + reason());
    return;
  }
  path_ = resolve_links(path);
  remove_abandoned(parent_folder(path_));
  temporary_ = make_temporary_name(path_);
  if (name == TemporaryName::kAtCommit) fd_ = open_without_name(parent_folder(path_));
  is_named_ = fd_ < 0;
  if (is_named_) {
    // A link in its place is not followed.
    ::unlink(temporary_.c_str());
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  }
  if (fd_ < 0) throw DataError(name_of(path_), "cannot create: " + reason());
}

AtomicFileWriter::~AtomicFileWriter() {
  ::close(fd_);
  if (is_named_) ::unlink(temporary_.c_str());
}

void AtomicFileWriter::write(std::span<const std::uint8_t> content) {
  const Moved written = move_all(content.size(), [&](std::size_t done) {
    return ::write(fd_, content.data() + done, content.size() - done);
  });
  // A device or socket may take no more without an error.
  const bool is_whole = written.bytes == content.size();
  const int error = written.error != 0 ? written.error : is_whole ? 0 : EIO;
  if (error != 0) fail_with(path_, "cannot write: ", error);
}

void AtomicFileWriter::commit() {
  if (!is_regular_) return;
  if (const int error = sync_descriptor(fd_); error != 0) fail_with(path_, kNotSynced, error);
  if (!is_named_) {
    ::unlink(temporary_.c_str());  // may be left by a killed process with the same number
    if (::linkat(AT_FDCWD, link_source(fd_).c_str(), AT_FDCWD, temporary_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0) {
      throw DataError(name_of(path_), "cannot name the file that was written: " + reason());
    }
    is_named_ = true;
  }
  rename_into_place(temporary_, path_);
  is_named_ = false;
  sync_path(parent_folder(path_));
}

void remove_leftovers(const Path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().find(kTemporaryMark) != std::string::npos) {
      std::filesystem::remove(entry.path(), ignored);
    }
  }
}

// Slicing by eight: about 2 GB/s without special instructions.
std::uint32_t crc32c(std::span<const std::uint8_t> bytes, std::uint32_t crc) {
  const auto& t = kCrcTables;
  crc = ~crc;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    word ^= crc;
    crc = t[7][word & 0xFF] ^ t[6][word >> 8 & 0xFF] ^ t[5][word >> 16 & 0xFF] ^
          t[4][word >> 24 & 0xFF] ^ t[3][word >> 32 & 0xFF] ^ t[2][word >> 40 & 0xFF] ^
          t[1][word >> 48 & 0xFF] ^ t[0][word >> 56];
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ t[0][(crc ^ bytes[i]) & 0xFF];
  return ~crc;
}

Digest::Digest(Algorithm algorithm) : context_(EVP_MD_CTX_new()) {
  const EVP_MD* const function = algorithm == Algorithm::kMd5 ? EVP_md5() : EVP_sha256();
  if (EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), function, nullptr) != 1) {
    EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
    throw std::runtime_error(concat("libcrypto does not offer ", EVP_MD_get0_name(function)));
  }
}

Digest::~Digest() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Digest::update(std::span<const std::uint8_t> bytes) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size());
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), &size);
  return to_hex({digest.data(), size});
}

std::string hash_file(int descriptor, const Path& path, Digest::Algorithm algorithm) {
  constexpr std::size_t kReadBytes = 1 << 20;
  Digest digest(algorithm);
  Bytes block(kReadBytes);
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(descriptor, block.data(), block.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw DataError(path.string(), "cannot read: " + describe_system_error(errno));
    }
    if (count == 0) return digest.hex();
    digest.update(std::span(block).first(count));
    offset += count;
  }
}

std::string hash_file(const Path& path, Digest::Algorithm algorithm) {
  return hash_file(open_regular_file(path).get(), path, algorithm);
}

std::string sha256(std::span<const std::uint8_t> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256(std::string_view text) {
  return sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "trainer-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw DataError(pattern, "cannot create: " + reason());
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace trainer
