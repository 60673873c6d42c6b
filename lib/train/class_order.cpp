#include "train/class_order.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace trainer::train {

std::string describe_class_difference(const std::vector<std::string>& before,
                                      const std::vector<std::string>& now) {
  if (before.size() != now.size()) {
    return concat("; there were ", before.size(), " classes, are ", now.size());
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (before[i] == now[i]) continue;
    return concat("; class ", i, " was '", printable(before[i]), "', is '", printable(now[i]), "'");
  }
  return "";
}

Notice check_class_order(const model::ImportReport& report,
                         const std::vector<std::string>& classes) {
  constexpr std::size_t kMaxNames = 6;
  if (!report.has_head || classes.empty()) return "";
  std::vector<std::string> now;
  for (const std::string& name : classes) now.push_back(printable(name));
  if (report.classes.empty()) {
    return Notice::note(concat(report.path,
                               ": has no class names; its outputs are taken for the "
                               "classes of the data in their order: ",
                               join_first(now, kMaxNames)));
  }
  if (report.classes == now) return "";
  std::vector<std::string> were = report.classes, are = now;
  std::ranges::sort(were);
  std::ranges::sort(are);
  const std::string difference = describe_class_difference(report.classes, now);
  if (were == are) {
    throw DataError(report.path, "was trained with the same classes in another order", difference,
                    ". Give data.classes in the order of the file: ", join(report.classes));
  }
  return concat(report.path, ": was trained with other classes than those of the data", difference,
                "; its last layer is loaded anyway. Name the layer in allow_missing and give "
                "it another name to start it anew");
}

}  // namespace trainer::train
