// Lists of images as people and programs write them.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/text.h"
#include "data/images/image_files.h"
#include "data/open.h"

namespace trainer::data::csv_test {
namespace {

struct Folder {
  TemporaryFolder files;
  fs::path csv = files.path() / "train.csv";
  config::Data config = build_config("");

  Folder() {
    for (int i = 0; i < 6; ++i) {
      write_image(files.path() / "x" / concat("x_", i, ".ppm"), 8, 6, i);
    }
    config.format = config::DataFormat::kCsv;
    config.train.path = csv;
  }

  // The classes, and the class of each file by number: "a, b: 0 1 0"; or the error behind the path.
  std::string read(const std::string& text) const {
    write_text(csv, text);
    try {
      const Datasets sets = open_datasets(config, 1);
      std::string result = join(sets.classes) + ":";
      for (const std::int32_t label : labels(*sets.train)) result += concat(' ', label);
      return result;
    } catch (const DataError& error) {
      return std::string(error.what()).substr(csv.string().size());
    }
  }
};

std::string utf16(const std::string& text, bool big, bool mark) {
  std::string result = !mark ? "" : big ? "\xFE\xFF" : "\xFF\xFE";
  for (const char c : text) {
    if (big) result += '\0';
    result += c;
    if (!big) result += '\0';
  }
  return result;
}

}  // namespace

TEST_CASE("csv: blanks around fields are left out, in quotes they are kept") {
  const Folder folder;
  CHECK(folder.read("path, label\nx/x_0.ppm, 0\n x/x_1.ppm ,\t1 \n") == "0, 1: 0 1");
  CHECK(folder.read("label , path\n dog, \"x/x_0.ppm\" \ncat ,x/x_1.ppm\n   \n") ==
        "cat, dog: 1 0");
  CHECK(folder.read("path,label\nx/x_0.ppm,\"cat \"\nx/x_1.ppm, cat\n") == "cat, cat : 1 0");
  CHECK(folder.read("path\tlabel\nx/x_0.ppm\t a b\n") == "a b: 0");
}

TEST_CASE("csv: lines may end in \\n, \\r\\n or \\r, and errors count them alike") {
  const Folder folder;
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const auto lines = [&](const std::vector<std::string>& all) {
      std::string text;
      for (const std::string& line : all) text += line + end;
      return text;
    };
    CHECK(folder.read(lines({"path,label", "x/x_0.ppm,0", "x/x_1.ppm,1"})) == "0, 1: 0 1");
    CHECK(folder.read(lines({"path,label", "", "x/x_0.ppm,\"a", "b\"", "x/x_1.ppm,"})) ==
          ":5: has no label");
    CHECK(folder.read(lines({"path;label;note", "x/x_0.ppm;0;a,b,c,d"})) == "0: 0");
  }
}

TEST_CASE("csv: UTF-16 is read in both byte orders, with and without a mark") {
  const Folder folder;
  const std::string text = "path,label\r\nx/x_0.ppm,0\r\nx/x_1.ppm,1\r\n";
  for (const bool big : {false, true}) {
    for (const bool mark : {false, true}) CHECK(folder.read(utf16(text, big, mark)) == "0, 1: 0 1");
  }
  CHECK(folder.read("\xEF\xBB\xBF" + text) == "0, 1: 0 1");
  // e with an acute accent, and a character of two units (U+1F600).
  const std::string name("\xE9\0\x3D\xD8\x00\xDE", 6);
  CHECK(folder.read(utf16("path,label\nx/x_0.ppm,", false, true) + name) ==
        "\xC3\xA9\xF0\x9F\x98\x80: 0");
  CHECK(folder.read(utf16("path,label\n", false, true) + "x") ==
        ": is damaged: it begins as UTF-16, but the characters at byte 22 are not; save it as "
        "UTF-8");
  CHECK(folder.read(utf16("ab", false, true) + std::string("\x00\xDE", 2)).find("at byte 4") !=
        std::string::npos);
  CHECK(folder.read(std::string("\xFF\xFE\0\0p\0\0\0", 8)) ==
        ": is UTF-32, which is not read; save it as UTF-8");
}

TEST_CASE("csv: a header without usual names is reported with the keys that name its columns") {
  const Folder folder;
  CHECK(folder.read("photo,species\nx/x_0.ppm,cat\nx/x_1.ppm,dog\n") ==
        ":1: looks like a header: 'photo' is not an image, but 'x/x_0.ppm' of line 2 is. Name the "
        "columns with data.csv: {image_column: photo, label_column: species}");
  CHECK(folder.read("species,photo\ncat,x/x_0.ppm\n")
            .ends_with("data.csv: {image_column: photo, label_column: species}"));
  CHECK(folder.read("image,species\nx/x_0.ppm,cat\n")
            .ends_with("data.csv: {image_column: image, label_column: species}"));
  CHECK(folder.read("photo {left}: file,species #\nx/x_0.ppm,cat\n")
            .ends_with("{image_column: \"photo {left}: file\", label_column: \"species #\"}"));
  CHECK(folder.read("photo,species\nmissing.jpg,cat\n").starts_with(":1: looks like a header"));
  CHECK(folder.read("x/x_0.ppm,species\nx/x_1.ppm,label\n") == "label, species: 1 0");
}

TEST_CASE("csv: a header beside images without their ending is reported with all keys") {
  Folder folder;
  write_image(folder.files.path() / "img" / "im_0.png", 8, 6, 0);
  write_image(folder.files.path() / "img" / "im_1.png", 8, 6, 1);
  const std::string error =
      ":1: looks like a header: 'id' is not an image, but 'im_0' of line 2 is. Name the columns "
      "with data.csv: {image_column: id, label_column: breed, ";
  const std::string root = (folder.files.path() / "img").string();
  const std::string list = "id,breed\nim_0,pug\nim_1,boxer\n";
  CHECK(folder.read(list) == concat(error, "root: ", root, ", ending: .png}"));
  folder.config.csv.root = root;
  CHECK(folder.read(list) == concat(error, "ending: .png}"));
  folder.config.csv.image_column = "id";
  folder.config.csv.label_column = "breed";
  folder.config.csv.ending = ".png";
  CHECK(folder.read(list) == "boxer, pug: 1 0");
}

TEST_CASE("csv: two usual names of classes are an error, and a coordinate y is not a class") {
  const Folder folder;
  CHECK(folder.read("image,x,y,Target\nx/x_0.ppm,3,4,1\nx/x_1.ppm,5,6,0\n") == "0, 1: 1 0");
  CHECK(folder.read("image,x,y\nx/x_0.ppm,3,4\nx/x_1.ppm,5,6\n")
            .starts_with(":1: which of the columns image, x, y is the class?"));
  CHECK(folder.read("image,age,y\nx/x_0.ppm,3,cat\nx/x_1.ppm,5,dog\n") == "cat, dog: 0 1");
  CHECK(folder.read("image,class,label\nx/x_0.ppm,3,cat\nx/x_1.ppm,5,dog\n") ==
        ":1: the columns class and label have usual names of classes; name the one to use with "
        "data.csv: {label_column: class}");
}

TEST_CASE("csv: columns of 0 and 1 come before a usual name among them") {
  const Folder folder;
  CHECK(folder.read("image,normal,target,mass\nx/x_0.ppm,1,0,0\nx/x_1.ppm,0,1,0\n"
                    "x/x_2.ppm,0,0,1\n") == "normal, target, mass: 0 1 2");
  // These are facts beside a class: their 1s do not divide the rows.
  CHECK(folder.read("image,smoker,target\nx/x_0.ppm,1,0\nx/x_1.ppm,1,1\n") == "0, 1: 0 1");
}

TEST_CASE("csv: numbers are classes in the order of their values") {
  const Folder folder;
  const auto numbers = [&](const std::vector<std::string>& all) {
    std::string text = "path,label\n";
    for (std::size_t i = 0; i < all.size(); ++i) text += concat("x/x_", i, ".ppm,", all[i], '\n');
    return folder.read(text);
  };
  CHECK(numbers({"0.0", "1.0", "3.0", "1", "3", "2.00"}) == "0, 1, 2, 3: 0 1 3 1 3 2");
  CHECK(numbers({"0.0", "1.0", "2.0", "10.0", "1.0", "0.0"}) ==
        "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10: 0 1 2 10 1 0");
  CHECK(numbers({"10.5", "2.5", "-1"}) == "-1, 2.5, 10.5: 2 1 0");
  CHECK(numbers({"10", "2", "x"}) == "10, 2, x: 0 1 2");
  CHECK(numbers({"1.", "0", "2"}) == "0, 1., 2: 1 0 2");
  // With names, a number is the place of a class.
  Folder named;
  named.config.classes = {"cat", "dog"};
  CHECK(named.read("path,label\nx/x_0.ppm,1.0\nx/x_1.ppm,0\nx/x_2.ppm,dog\n") == "cat, dog: 1 0 1");
  // Where numbers are the names, a number is a name however it is written, and never a place.
  named.config.classes = {"1", "2", "3"};
  CHECK(named.read("path,label\nx/x_0.ppm,1.0\nx/x_1.ppm,3\n") == "1, 2, 3: 0 2");
  CHECK(named.read("path,label\nx/x_0.ppm,0\n") ==
        ":2: the label '0' is not a class; the classes are 1, 2, 3");
  CHECK(numbers({"1", "2.5", "1.0"}) ==
        ":4: the labels '1' and '1.0' are the same number; write both the same way");
}

TEST_CASE("csv: columns of 0 and 1 with one 1 per row are classes in their order") {
  const Folder folder;
  CHECK(folder.read("image,MEL,NV,BCC\nx/x_0.ppm,1,0,0\nx/x_1.ppm,0,1,0\nx/x_2.ppm,0,0,1\n") ==
        "MEL, NV, BCC: 0 1 2");
  CHECK(folder.read("image,age,MEL,NV,who\nx/x_0.ppm,60,1.0,0.0,p\nx/x_1.ppm,1,0.0,1.0,q\n") ==
        "MEL, NV: 0 1");
  CHECK(folder.read("image,MEL,NV,sample_weight\nx/x_0.ppm,1,0,1\nx/x_1.ppm,0,1,1\n") ==
        "MEL, NV: 0 1");
  CHECK(folder.read("image,edema,mass,nodule\nx/x_0.ppm,1,0,0\nx/x_1.ppm,1,0,1\nx/x_2.ppm,0,1,0\n")
            .starts_with(
                ":3: has 2 labels, edema, nodule; without model.loss: binary_cross_entropy "));
  CHECK(folder.read("image,MEL,NV\nx/x_0.ppm,1,0\nx/x_1.ppm,,1\nx/x_2.ppm,0,0\n")
            .starts_with(":4: has no label: none of the columns"));
  CHECK(folder.read("image,MEL,NV\nx/x_0.ppm,1,0\nx/x_1.ppm,0,2\n")
            .starts_with(":1: which of the columns image, MEL, NV is the class?"));
  CHECK(folder.read("image,MEL,NV,MEL\nx/x_0.ppm,1,0,0\nx/x_1.ppm,0,1,0\nx/x_2.ppm,0,0,1\n") ==
        ":1: has two columns 'MEL'");
}

TEST_CASE("csv: cells with several labels are rejected, names with blanks are not") {
  const Folder folder;
  const auto cells = [&](const std::vector<std::string>& all) {
    std::string text = "path,label\n";
    for (std::size_t i = 0; i < all.size(); ++i) {
      text += concat("x/x_", i, ".ppm,\"", all[i], "\"\n");
    }
    return folder.read(text);
  };
  for (const char* separator : {"|", ";", ",", " ", " | ", ", "}) {
    CAPTURE(separator);
    const std::string both = concat("edema", separator, "mass");
    const std::string error = cells({"edema", both, "mass"});
    CHECK(error.starts_with(concat(":3: the label '", both, "' looks like several labels")));
    CHECK(error.ends_with("list them in data.classes"));
  }
  CHECK(cells({"edema|mass", "nodule|mass", "edema|nodule"}).starts_with(":2: the label"));
  CHECK(cells({"a b", "a c", "b c", "a b c"}).find("separated by ' '") != std::string::npos);
  CHECK(cells({"golden retriever", "german shepherd", "retriever mix"}) ==
        "german shepherd, golden retriever, retriever mix: 1 0 2");
  CHECK(cells({"Paris, France", "Rome, Italy"}) == "Paris, France, Rome, Italy: 0 1");
  Folder named;
  named.config.classes = {"a", "a b", "b"};
  CHECK(named.read("path,label\nx/x_0.ppm,a b\nx/x_1.ppm,b\n") == "a, a b, b: 1 2");
}

TEST_CASE("csv: backslashes between folders are read where no file has them in its name") {
  const Folder folder;
  CHECK(folder.read("path,label\nx\\x_0.ppm,0\n.\\x\\x_1.ppm,1\n") == "0, 1: 0 1");
  write_image(folder.files.path() / "x\\x_0.ppm", 8, 6, 9);
  write_text(folder.csv, "path,label\nx\\x_0.ppm,0\n");
  CHECK(open_datasets(folder.config, 1).train->describe(0).ends_with("x\\x_0.ppm"));
  CHECK(folder.read("path,label\nnone\\x_7.ppm,0\n").find("there is no file") != std::string::npos);
}

}  // namespace trainer::data::csv_test
