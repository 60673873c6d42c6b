#include "commands/weights/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <thread>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/system_error.h"
#include "http/client.h"

namespace trainer::commands {
namespace {

namespace fs = std::filesystem;

// ".<name>.part" beside the file, which keeps what an interrupted download received. Where the file
// system has locks, it is locked against other processes.
class PartFile {
 public:
  // Opens it, and makes it if there is none. Throws DataError, also if another process has it or it
  // is a link.
  explicit PartFile(const Path& file);

  const Path& path() const { return path_; }
  std::int64_t bytes() const;
  // Returns the first `count` bytes, or all if there are fewer.
  std::string start(std::size_t count) const;
  std::string digest(Digest::Algorithm algorithm) const;

  // Appends all bytes. Returns 0 or an error number.
  int append(const char* data, std::size_t count);
  void clear();   // makes the file empty
  void remove();  // the file itself
  // Flushes the file and gives it its name.
  void publish(const Path& file);

 private:
  Path path_;
  Descriptor file_;
};

PartFile::PartFile(const Path& file)
    : path_(file.parent_path() / concat(".", file.filename().string(), ".part")) {
  for (;;) {
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file_ && errno == ELOOP) {
      throw DataError(path_.string(),
                      "is a link, through which a download is not written; remove it");
    }
    if (!file_) {
      throw DataError(path_.string(), "cannot be written: ", describe_system_error(errno),
                      "; name a folder that can be written in the "
                      "environment variable WEIGHTS_DIR");
    }
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && !is_unsupported(errno)) {
      const int code = errno;
      throw DataError(path_.string(),
                      code == EWOULDBLOCK
                          ? "another process downloads this file; wait until it has finished"
                          : "cannot lock: " + describe_system_error(code));
    }
    // The process that held the lock may have renamed or removed the file.
    struct stat opened = {}, named = {};
    if (::fstat(file_.get(), &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
      return;
    }
  }
}

std::int64_t PartFile::bytes() const {
  struct stat status = {};
  return ::fstat(file_.get(), &status) == 0 ? status.st_size : 0;
}

std::string PartFile::start(std::size_t count) const {
  std::string text(count, '\0');
  const ssize_t found = ::pread(file_.get(), text.data(), count, 0);
  text.resize(std::max<ssize_t>(0, found));
  return text;
}

std::string PartFile::digest(Digest::Algorithm algorithm) const {
  return hash_file(file_.get(), path_, algorithm);
}

int PartFile::append(const char* data, std::size_t count) {
  ::lseek(file_.get(), 0, SEEK_END);
  const Moved written = move_all(
      count, [&](std::size_t done) { return ::write(file_.get(), data + done, count - done); });
  return written.error;
}

void PartFile::clear() {
  if (::ftruncate(file_.get(), 0) != 0) {
    throw DataError(path_.string(), "cannot be emptied: " + describe_system_error(errno));
  }
}

void PartFile::remove() { ::unlink(path_.c_str()); }

void PartFile::publish(const Path& file) {
  sync_path(path_);
  std::filesystem::rename(path_, file);
  sync_path(file.parent_path());
}

Digest::Algorithm find_algorithm(const Checksum& checksum) {
  return checksum.kind == Checksum::Kind::kMd5 ? Digest::Algorithm::kMd5
                                               : Digest::Algorithm::kSha256;
}

const char* name_algorithm(const Checksum& checksum) {
  return checksum.kind == Checksum::Kind::kMd5 ? "MD5" : "SHA-256";
}

Path digest_file(const Path& file) { return file.string() + ".sha256"; }

std::string read_recorded(const Path& file) {
  if (!path_exists(digest_file(file))) return "";
  const std::string text = read_text_file(digest_file(file));
  return text.substr(0, text.find(' '));
}

std::string describe_difference(const std::string& actual, const std::string& expected,
                                const char* name) {
  if (actual.starts_with(expected)) return "";
  return concat("its ", name, " is ", actual, ", expected ", expected);
}

// What one request came to.
struct TransferOutcome {
  http::Response response;
  int write_error = 0;
  bool is_too_long = false;
};

http::Request make_request(const Download& what, std::int64_t start) {
  http::Request request;
  request.url = what.url;
  request.follows_redirects = true;
  request.wanted_header = what.digest_header;
  request.first_byte = start;
  // A connection that brings nothing for a minute is broken.
  request.max_stall = std::chrono::seconds(60);
  return request;
}

TransferOutcome send_request(http::Client& client, const Download& what, PartFile& part,
                             const DownloadProgress& progress) {
  TransferOutcome outcome;
  const std::int64_t start = part.bytes();
  std::int64_t bytes = start;
  http::Request request = make_request(what, start);
  request.receive = [&](std::string_view piece) {
    bytes += std::ssize(piece);
    outcome.is_too_long = bytes > what.max_bytes;
    if (outcome.is_too_long) return false;
    outcome.write_error = part.append(piece.data(), piece.size());
    return outcome.write_error == 0;
  };
  request.proceed = [&](std::int64_t total) {
    if (progress && total > 0) progress(bytes, start + total);
    return true;
  };
  outcome.response = client.send(request);
  return outcome;
}

[[noreturn]] void reject_transfer(const Download& what, PartFile& part,
                                  const TransferOutcome& outcome) {
  if (outcome.is_too_long) {
    part.remove();
    throw DataError(what.url, "the server sends more than the ", what.max_bytes,
                    " bytes that the file can have; nothing was kept of it");
  }
  const std::int64_t bytes = part.bytes();
  if (bytes == 0) part.remove();
  const std::string kept = bytes == 0 ? ""
                                      : concat("; the next start continues after the ", bytes,
                                               " bytes in ", part.path().string());
  if (outcome.write_error != 0) {
    throw DataError(part.path().string(),
                    "cannot be written: ", describe_system_error(outcome.write_error), kept);
  }
  const http::Response& response = outcome.response;
  if ((response.status == 401 || response.status == 403) && !what.denied.empty()) {
    throw DataError(what.url, "the server answers with status ", response.status, ": ",
                    what.denied);
  }
  const std::string answer = response.status >= 400
                                 ? concat("the server answers with status ", response.status)
                                 : response.error;
  throw DataError(what.url, "cannot be downloaded: ", answer, kept,
                  "; name another server that has the file in the environment "
                  "variable WEIGHTS_MIRROR");
}

// Returns the SHA-256 of a header, which may be in quotes; "" for another value.
std::string read_digest(std::string value) {
  std::erase(value, '"');
  constexpr std::size_t kDigits = 64;
  const bool is_digest =
      value.size() == kDigits && value.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_digest ? value : "";
}

// Transfers what is missing. Returns the SHA-256 that the server gives; "" for none.
std::string transfer_rest(const Download& what, PartFile& part, const DownloadProgress& progress) {
  http::Client client({what.certificates, {.token = what.token}});
  for (int retries = 0;; ++retries) {
    const std::int64_t start = part.bytes();
    const TransferOutcome outcome = send_request(client, what, part, progress);
    // libcurl does not take status 416 for an error: usually nothing is missing.
    if (start > 0 && outcome.response.has_no_range) {
      part.clear();
    } else if (outcome.response.error.empty()) {
      return read_digest(outcome.response.header);
    } else if (outcome.response.is_transient && retries < what.max_retries) {
      std::this_thread::sleep_for(what.pause);
    } else {
      reject_transfer(what, part, outcome);
    }
  }
}

// Throws DataError and removes the part if it is another file.
void check_content(const Download& what, const Checksum& checksum, PartFile& part) {
  std::string difference;
  if (!part.start(what.start.size()).starts_with(what.start)) {
    difference = "it begins with other bytes";
  } else if (part.bytes() < what.min_bytes) {
    difference = concat("it has ", part.bytes(), " bytes, expected at least ", what.min_bytes);
  } else if (checksum.kind == Checksum::Kind::kRecorded) {
    if (what.find_fault) difference = what.find_fault(part.path());
  } else {
    difference = describe_difference(part.digest(find_algorithm(checksum)), checksum.hex,
                                     name_algorithm(checksum));
  }
  if (difference.empty()) return;
  part.remove();
  throw DataError(what.url, "is not the original file: ", difference,
                  "; nothing was kept of it. Try again, or name another server "
                  "in the environment variable WEIGHTS_MIRROR");
}

bool is_whole(const Download& what, const PartFile& part) {
  return part.bytes() > 0 && what.checksum.kind != Checksum::Kind::kRecorded &&
         part.digest(find_algorithm(what.checksum)).starts_with(what.checksum.hex);
}

}  // namespace

std::string find_difference(const Path& file, const Checksum& checksum) {
  std::string expected = checksum.hex;
  if (checksum.kind == Checksum::Kind::kRecorded) expected = read_recorded(file);
  if (expected.empty()) return "";
  return describe_difference(hash_file(file, find_algorithm(checksum)), expected,
                             name_algorithm(checksum));
}

Downloaded download(const Download& what, const DownloadProgress& progress) {
  Downloaded result;
  std::error_code error;
  fs::create_directories(what.file.parent_path(), error);
  if (error) {
    throw DataError(what.file.parent_path().string(), "cannot be made: ", error.message(),
                    "; name a folder that can be written in the environment variable WEIGHTS_DIR");
  }
  result.file = what.file;
  if (fs::exists(what.file)) {
    if (const std::string difference = find_difference(what.file, what.checksum);
        !difference.empty()) {
      throw DataError(what.file.string(), "is there and is not the original file: ", difference,
                      "; remove it to download the original");
    }
    result.was_there = true;
    result.bytes = static_cast<std::int64_t>(fs::file_size(what.file));
    return result;
  }
  PartFile part(what.file);
  result.resumed = part.bytes();
  Checksum checksum = what.checksum;
  if (!is_whole(what, part)) {
    const std::string digest = transfer_rest(what, part, progress);
    if (!digest.empty()) checksum = {Checksum::Kind::kSha256, digest};
  }
  check_content(what, checksum, part);
  result.bytes = part.bytes();
  if (checksum.kind == Checksum::Kind::kRecorded) {
    result.sha256 = part.digest(Digest::Algorithm::kSha256);
    write_file_atomic(digest_file(what.file),
                      concat(result.sha256, "  ", what.file.filename().string(), "\n"));
  }
  part.publish(what.file);
  return result;
}

}  // namespace trainer::commands
