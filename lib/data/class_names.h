// Class names in messages, and those that a reader could take for the same name.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

// Returns "a, b, c": the names of the first 20 classes, and how many follow.
std::string list_classes(std::vector<std::string> classes);

// Returns a line for each set of class names that differ only by blanks, by case or by Unicode form
// (NFC and NFD write accents differently). The lines contain the names, printable, in their order.
std::vector<std::string> describe_similar_names(const std::vector<std::string>& classes);

// Returns "; it differs from the class 'Cat' only by case" for the first class that is similar to
// `name`, "" if there is none.
std::string describe_similar_class(const std::string& name,
                                   const std::vector<std::string>& classes);

// Returns the label of each class by its name in every Unicode form, so that a folder or a label in
// NFD is the class of the same name in NFC. Where two classes differ by form, each has its own.
std::map<std::string, std::int32_t> map_class_names(const std::vector<std::string>& classes);

// Collects images that lie in a folder with the name of another class, below the folder of their
// own class. A data set that contains a copy of itself has such images.
class InnerClassFolders {
 public:
  // Both arguments must outlive it. `labels` is map_class_names(classes).
  InnerClassFolders(const std::vector<std::string>& classes,
                    const std::map<std::string, std::int32_t>& labels)
      : classes_(classes), labels_(labels) {}

  // `path` is that of an image below the folder of its class, "daisy/1.jpg".
  void add(std::int32_t label, std::string_view path);
  // Returns the line on these images; "" if there are none. `source` is the folder of the classes.
  std::string describe(const std::string& source) const;

 private:
  const std::vector<std::string>& classes_;
  const std::map<std::string, std::int32_t>& labels_;
  std::int64_t images_ = 0;
  std::set<std::string> folders_;  // "photos/daisy"
};

}  // namespace trainer::data
