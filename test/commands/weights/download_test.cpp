// Downloads from a server on the loopback device; its URLs select how it misbehaves (server.py).
#include "commands/weights/download.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "commands/weights/weights.h"
#include "config/pretrained.h"
#include "support/contains.h"
#include "support/loopback_server.h"

namespace trainer::commands::download_test {
namespace {

namespace fs = std::filesystem;
using test::contains;

std::string make_content() {
  std::string content = "\x89HDF\r\n\x1a\n";
  for (int i = 0; i < 20'000; ++i) content += static_cast<char>(i * 7 % 251);
  return content;
}

std::string sha256(const std::string& text) {
  Sha256 digest;
  digest.update({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  return digest.hex();
}

class Server {
 public:
  Server() {
    fs::create_directory(folder_.path() / "served");
    fs::create_directory(folder_.path() / "cache");
    write_file_atomic(folder_.path() / "served" / "file.h5", content);
    server_.emplace("test/commands/weights/server.py",
                    std::vector<std::string>{(folder_.path() / "served").string(), log().string()});
  }

  Path file() const { return folder_.path() / "cache" / "file.h5"; }
  Path part() const { return folder_.path() / "cache" / ".file.h5.part"; }
  Path log() const { return folder_.path() / "log"; }
  std::string url(const std::string& path) const { return concat(server_->url(), "/", path); }
  // `path` as server.py describes it.
  Download describe(const std::string& path) const {
    Download what;
    what.url = url(path);
    what.file = file();
    what.checksum = {Checksum::Kind::kSha256, sha256(content)};
    what.start = content.substr(0, 8);
    what.max_bytes = 100'000;
    what.pause = std::chrono::milliseconds(0);
    return what;
  }
  // Returns the offset from which each request was answered.
  std::vector<int> offsets() const {
    std::vector<int> found;
    std::ifstream lines(log());
    for (int offset = 0; lines >> offset;) found.push_back(offset);
    return found;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(file().parent_path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string content = make_content();

 private:
  TemporaryFolder folder_;
  std::optional<test::LoopbackServer> server_;
};

std::string read_error(const Download& what) {
  try {
    download(what);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("download: a whole file is checked, published and not downloaded again") {
  const Server server;
  std::int64_t last = 0, total = 0;
  const Downloaded first =
      download(server.describe("file.h5"), [&](std::int64_t bytes, std::int64_t of) {
        CHECK(bytes >= last);
        last = bytes;
        total = of;
      });
  CHECK(read_text_file(server.file()) == server.content);
  CHECK_FALSE(first.was_there);
  CHECK(first.bytes == static_cast<std::int64_t>(server.content.size()));
  CHECK(total == first.bytes);
  CHECK(last == first.bytes);
  CHECK(server.files() == Names{"file.h5"});
  CHECK(download(server.describe("file.h5")).was_there);
  CHECK(server.offsets() == std::vector{0});
}

TEST_CASE("download continues a partial file of an earlier start") {
  const Server server;
  write_file_atomic(server.part(), server.content.substr(0, 5000));
  const Downloaded result = download(server.describe("file.h5"));
  CHECK(result.resumed == 5000);
  CHECK(read_text_file(server.file()) == server.content);
  CHECK(server.offsets() == std::vector{5000});
  CHECK(server.files() == Names{"file.h5"});
}

TEST_CASE("download sends no request for a partial file that is complete") {
  const Server server;
  write_file_atomic(server.part(), server.content);
  download(server.describe("file.h5"));
  CHECK(read_text_file(server.file()) == server.content);
  CHECK(server.offsets().empty());
}

TEST_CASE("download starts again where the server cannot continue a partial file") {
  const Server server;
  SUBCASE("a server without ranges") {
    write_file_atomic(server.part(), server.content.substr(0, 5000));
    download(server.describe("whole/file.h5"));
    CHECK(server.offsets() == std::vector{0, 0});
  }
  SUBCASE("a part that is longer than the file") {
    write_file_atomic(server.part(), server.content + "more");
    download(server.describe("file.h5"));
    CHECK(server.offsets() == std::vector{static_cast<int>(server.content.size()) + 4, 0});
  }
  CHECK(read_text_file(server.file()) == server.content);
}

TEST_CASE("download: the checksum rejects and removes a part of another file") {
  const Server server;
  write_file_atomic(server.part(), std::string(5000, 'x'));
  Download what = server.describe("file.h5");
  what.start.clear();
  CHECK(contains(read_error(what), "is not the original file"));
  CHECK(server.files().empty());
}

TEST_CASE("download continues after a pause when a connection breaks") {
  const Server server;
  const Downloaded result = download(server.describe("cut/5000/2/file.h5"));
  CHECK(result.resumed == 0);
  CHECK(read_text_file(server.file()) == server.content);
  CHECK(server.offsets() == std::vector{0, 5000, 10000});
}

TEST_CASE("download: the partial file stays for the next start if a connection breaks too often") {
  const Server server;
  Download what = server.describe("cut/5000/2/file.h5");
  what.max_retries = 1;
  const std::string error = read_error(what);
  CHECK(contains(error, what.url));
  CHECK(contains(error,
                 "the next start continues after the 10000 bytes in " + server.part().string()));
  CHECK(contains(error, "WEIGHTS_MIRROR"));
  CHECK(server.files() == Names{".file.h5.part"});
  CHECK(download(what).resumed == 10000);
  CHECK(read_text_file(server.file()) == server.content);
}

TEST_CASE("download sends another request to an overloaded server") {
  const Server server;
  download(server.describe("status/503/2/file.h5"));
  CHECK(read_text_file(server.file()) == server.content);
  Download what = server.describe("status/503/9/file.h5");
  what.file += "2";
  CHECK(contains(read_error(what), "the server answers with status 503"));
}

TEST_CASE("download: the error of a wrong checksum has both, and there is no file") {
  const Server server;
  Download what = server.describe("file.h5");
  SUBCASE("SHA-256") {
    what.checksum.hex = std::string(64, '0');
    CHECK(contains(read_error(what),
                   concat("is not the original file: its SHA-256 is ", sha256(server.content),
                          ", expected ", std::string(64, '0'))));
  }
  SUBCASE("MD5") {
    what.checksum = {Checksum::Kind::kMd5, std::string(32, '0')};
    CHECK(contains(read_error(what), "its MD5 is "));
  }
  SUBCASE("other first bytes") {
    what.start = "PK";
    CHECK(contains(read_error(what), "it begins with other bytes"));
  }
  CHECK(server.files().empty());
}

TEST_CASE("download compares an MD5 checksum with that of the file") {
  const Server server;
  write_file_atomic(server.file().parent_path() / "../served/abc", "abc");
  Download what = server.describe("abc");
  what.start.clear();
  what.checksum = {Checksum::Kind::kMd5, "900150983cd24fb0d6963f7d28e17f72"};
  download(what);
  CHECK(read_text_file(what.file) == "abc");
}

TEST_CASE("download records and compares the first digest without a checksum") {
  const Server server;
  Download what = server.describe("file.h5");
  what.checksum = {};
  CHECK(download(what).sha256 == sha256(server.content));
  CHECK(read_text_file(server.file().string() + ".sha256") ==
        sha256(server.content) + "  file.h5\n");
  CHECK(download(what).was_there);
  write_file_atomic(server.file(), server.content + "x");
  CHECK(contains(read_error(what), concat("is there and is not the original file: its SHA-256 is ",
                                          sha256(server.content + "x"), ", expected ",
                                          sha256(server.content), "; remove it")));
  CHECK(read_text_file(server.file()) == server.content + "x");
}

TEST_CASE("download: without a published checksum, a file of another size or content is rejected") {
  const Server server;
  Download what = server.describe("file.h5");
  what.checksum = {};
  what.min_bytes = 20'009;
  CHECK(contains(read_error(what),
                 "is not the original file: it has 20008 bytes, expected at least 20009"));
  what.min_bytes = 20'008;
  what.find_fault = [](const Path& file) {
    return read_file(file).size() == 20'008 ? "it has no layer x" : "";
  };
  CHECK(contains(read_error(what), "is not the original file: it has no layer x"));
  CHECK(server.files().empty());
}

TEST_CASE("download: a link in the place of the partial file is an error, and its target stays") {
  const Server server;
  const Path target = server.log();
  write_file_atomic(target, "mine");
  fs::create_symlink(target, server.part());
  CHECK(contains(read_error(server.describe("file.h5")), server.part().string() + ": is a link"));
  CHECK(read_text_file(target) == "mine");
  CHECK(server.files() == Names{".file.h5.part"});
}

TEST_CASE("download: a file that the server lacks, or no server, is an error and leaves no file") {
  const Server server;
  CHECK(contains(read_error(server.describe("missing.h5")), "the server answers with status 404"));
  Download what = server.describe("file.h5");
  what.url = "http://127.0.0.1:1/file.h5";
  CHECK(contains(read_error(what), "http://127.0.0.1:1/file.h5: cannot be downloaded: "));
  what.url = "file:///etc/passwd";
  CHECK(contains(read_error(what), "cannot be downloaded: "));
  CHECK(server.files().empty());
}

TEST_CASE("download stops a server that sends more than the file can have") {
  const Server server;
  CHECK(contains(read_error(server.describe("endless/file.h5")),
                 "the server sends more than the 100000 bytes that the file can have"));
  CHECK(server.files().empty());
}

TEST_CASE("download: the error of no space names the partial file, which stays") {
  const Server server;
  // A limit on the size of files fails as a full disk does, in the middle of the file.
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 8192;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string error = read_error(server.describe("file.h5"));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(error, server.part().string() + ": cannot be written: File too large"));
  CHECK(contains(error, "the next start continues after the 8192 bytes"));
  CHECK(download(server.describe("file.h5")).resumed == 8192);
  CHECK(read_text_file(server.file()) == server.content);
}

TEST_CASE("download: the error of a folder that cannot be written has it and the variable") {
  const Server server;
  const Path folder = server.file().parent_path();
  fs::permissions(folder.parent_path(), fs::perms(0755));
  fs::permissions(folder, fs::perms(0555));
  // root may write everywhere; the file system then sees another user.
  const int user = ::geteuid() == 0 ? ::setfsuid(65534) : -1;
  const std::string error = read_error(server.describe("file.h5"));
  Download below = server.describe("file.h5");
  below.file = folder / "inner" / "file.h5";
  const std::string inner = read_error(below);
  if (user >= 0) ::setfsuid(static_cast<uid_t>(user));
  fs::permissions(folder, fs::perms(0755));
  CHECK(contains(error, server.part().string() + ": cannot be written: Permission denied"));
  CHECK(contains(error, "WEIGHTS_DIR"));
  CHECK(contains(inner, (folder / "inner").string() + ": cannot be made: "));
  CHECK(server.files().empty());
}

TEST_CASE("download rejects the second of two processes at the same time") {
  const Server server;
  const int part = ::open(server.part().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  REQUIRE(::flock(part, LOCK_EX) == 0);
  CHECK(contains(read_error(server.describe("file.h5")), "another process downloads this file"));
  ::close(part);
  download(server.describe("file.h5"));
}

TEST_CASE("weights: a mirror has the folders of Keras's server") {
  const config::Environment none;
  CHECK(find_weight_file("resnet50", none).url ==
        "https://storage.googleapis.com/tensorflow/keras-applications/resnet/"
        "resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5");
  CHECK(find_weight_file("efficientnet_b0", none).url ==
        "https://storage.googleapis.com/keras-applications/efficientnetb0_notop.h5");
  const config::Environment mirror{{"WEIGHTS_MIRROR", "http://host/weights/"}};
  CHECK(find_weight_file("mobilenet_v3_small", mirror).url ==
        "http://host/weights/mobilenet_v3/"
        "weights_mobilenet_v3_small_224_1.0_float_no_top_v2.h5");
  CHECK(find_weight_file("efficientnet_b3", mirror).url ==
        "http://host/weights/efficientnetb3_notop.h5");
  CHECK_THROWS_AS(find_weight_file("resnet51", none), ConfigError);
  CHECK_THROWS_WITH_AS(find_weight_file("resnet18", none),
                       doctest::Contains("download.pytorch.org"), DataError);
  CHECK(config::download_folder(none) == "weights");
  CHECK(config::download_folder({{"HOME", "/home/u"}}) == "/home/u/.keras/models");
  CHECK(config::download_folder({{"HOME", "/home/u"}, {"WEIGHTS_DIR", "/cache"}}) == "/cache");
  CHECK(config::download_folder({{"HOME", "/home/u"}, {"WEIGHTS_DIR", "/home/u/.keras/models"}}) ==
        "/home/u/.keras/models");
}

}  // namespace trainer::commands::download_test
