#include "checkpoint/hdf5.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace trainer::checkpoint::hdf5 {
namespace {

// More is a damaged file, not a weight.
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 33;
// What gzip, the best of the usual filters, gains at most.
constexpr std::uint64_t kMostPacked = 1032;

// The library prints its errors unless told not to; ours say more.
void silence() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

// Files live in memory: one way for plain files and for those in archives, and no file locks.
Handle memory_access() {
  silence();
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access, std::size_t{1} << 20, false);
  return access;
}

template <class T>
T ours(T result, const char* what) {
  if (result < 0) throw std::logic_error(concat("HDF5: cannot ", what));
  return result;
}

herr_t note_child(hid_t group, const char* name, const H5L_info_t*, void* to) {
  auto& children = *static_cast<Reader::Children*>(to);
  H5O_info_t info;
  if (H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) < 0) return 0;  // a dangling link
  if (info.type == H5O_TYPE_GROUP) children.groups.emplace_back(name);
  if (info.type == H5O_TYPE_DATASET) children.datasets.emplace_back(name);
  return 0;
}

}  // namespace

Reader::Reader(std::string path, std::span<const std::uint8_t> content) : path_(std::move(path)) {
  const Handle access = memory_access();
  // The library promises not to change the image that it copies.
  H5Pset_file_image(access, const_cast<std::uint8_t*>(content.data()), content.size());
  file_ = Handle(H5Fopen("weights", H5F_ACC_RDONLY, access), H5Fclose);
  if (!file_.valid()) fail("is a damaged or truncated HDF5 file");
}

Reader::Children Reader::children(const std::string& group) const {
  Children children;
  const Handle opened(H5Gopen2(file_, group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!opened.valid()) fail("has no group '" + group + "': the file is damaged");
  if (H5Literate(opened, H5_INDEX_NAME, H5_ITER_INC, nullptr, note_child, &children) < 0) {
    fail("cannot list the group '" + group + "': the file is damaged");
  }
  return children;
}

std::uint64_t Reader::address(const std::string& object) const {
  H5O_info_t info;
  if (H5Oget_info_by_name(file_, object.c_str(), &info, H5P_DEFAULT) < 0) {
    fail("has no '" + object + "': the file is damaged");
  }
  return info.addr;
}

bool Reader::exists(const std::string& name) const {
  return H5Lexists(file_, name.c_str(), H5P_DEFAULT) > 0;
}

bool Reader::has_texts(const std::string& object, const std::string& attribute) const {
  const auto has = [&](const std::string& name) {
    return H5Aexists_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT) > 0;
  };
  return has(attribute) || has(attribute + '0');
}

std::vector<std::string> Reader::texts(const std::string& object,
                                       const std::string& attribute) const {
  std::vector<std::string> all;
  const auto append = [&](const std::string& name) {
    if (H5Aexists_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT) <= 0) return false;
    const Handle opened(
        H5Aopen_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    for (std::string& text : read_texts(opened, object + '@' + name))
      all.push_back(std::move(text));
    return true;
  };
  if (append(attribute)) return all;
  for (int piece = 0; append(concat(attribute, piece)); ++piece) {
  }
  return all;
}

std::vector<std::string> Reader::read_texts(const Handle& attribute,
                                            const std::string& where) const {
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  std::vector<std::string> texts;
  if (count <= 0) return texts;
  // An empty list of texts is written as an empty list of numbers by some.
  if (H5Tget_class(type) != H5T_STRING || count > (1 << 24)) fail(where + " is no list of texts");
  const auto number = static_cast<std::size_t>(count);
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(number, nullptr);
    const Handle memory(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(memory, H5T_VARIABLE);
    H5Tset_cset(memory, H5Tget_cset(type));
    if (H5Aread(attribute, memory, pointers.data()) < 0) fail("cannot read " + where);
    for (const char* pointer : pointers) texts.emplace_back(pointer == nullptr ? "" : pointer);
    H5Dvlen_reclaim(memory, space, H5P_DEFAULT, pointers.data());
    return texts;
  }
  const std::size_t size = H5Tget_size(type);
  if (size > (1 << 24) || number * size > (std::size_t{1} << 28)) fail(where + " is damaged");
  std::vector<char> bytes(number * size);
  if (H5Aread(attribute, type, bytes.data()) < 0) fail("cannot read " + where);
  for (std::size_t i = 0; i < number; ++i) {
    texts.emplace_back(bytes.data() + i * size, strnlen(bytes.data() + i * size, size));
  }
  return texts;
}

Tensor Reader::tensor(const std::string& dataset, const std::string& name) const {
  const Handle data(H5Dopen2(file_, dataset.c_str(), H5P_DEFAULT), H5Dclose);
  if (!data.valid()) fail("has no dataset '" + dataset + "': the file is damaged");
  const Handle space(H5Dget_space(data), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0) fail("cannot read the shape of '" + dataset + "'");
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space, extents.data(), nullptr);
  std::vector<std::int64_t> dims;
  std::uint64_t elements = 1;
  for (const hsize_t extent : extents) {
    if (__builtin_mul_overflow(elements, static_cast<std::uint64_t>(extent), &elements) ||
        elements > kMaxElements) {
      fail("'" + dataset + "' is impossibly large: the file is damaged");
    }
    dims.push_back(static_cast<std::int64_t>(extent));
  }
  // Pieces that the file does not hold read as zeros, of which it may claim any number.
  const std::uint64_t stored = H5Dget_storage_size(data);
  const Handle layout(H5Dget_create_plist(data), H5Pclose);
  const std::uint64_t most = H5Pget_nfilters(layout) > 0 ? stored * kMostPacked : stored;
  if (elements > std::max(most, kMostPacked)) {
    fail(concat("'", dataset, "' claims ", elements, " numbers, but holds ", stored,
                " bytes: the file is damaged"));
  }
  const Handle type(H5Dget_type(data), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) fail("'" + dataset + "' holds no numbers");
  Tensor tensor{name, Shape(std::move(dims)), {}};
  tensor.values.resize(static_cast<std::size_t>(elements));
  if (H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.values.data()) < 0) {
    fail("cannot read '" + dataset + "': the file is damaged or truncated");
  }
  return tensor;
}

Writer::Writer() {
  const Handle access = memory_access();
  file_ = Handle(H5Fcreate("weights", H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose);
  ours<hid_t>(file_, "create a file in memory");
}

void Writer::group(const std::string& name) {
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle made(H5Gcreate2(file_, name.c_str(), links, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  ours<hid_t>(made, "create a group");
}

void Writer::text(const std::string& object, const std::string& attribute,
                  const std::string& value) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, std::max<std::size_t>(value.size(), 1));
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle made(H5Acreate_by_name(file_, object.c_str(), attribute.c_str(), type, space,
                                      H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                    H5Aclose);
  ours<hid_t>(made, "create an attribute");
  ours(H5Awrite(made, type, value.c_str()), "write an attribute");
}

void Writer::texts(const std::string& object, const std::string& attribute,
                   const std::vector<std::string>& values) {
  std::size_t width = 1, limit = 64000;  // an attribute holds at most 64 KiB
  for (const std::string& value : values) width = std::max(width, value.size());
  const std::size_t piece = std::max<std::size_t>(limit / width, 1);
  const bool whole = values.size() <= piece;
  for (std::size_t first = 0, number = 0; first == 0 || first < values.size(); first += piece) {
    const std::size_t count = std::min(piece, values.size() - first);
    std::vector<char> bytes(count * width + 1, '\0');
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(bytes.data() + i * width, values[first + i].data(), values[first + i].size());
    }
    const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type, width);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    const hsize_t extent = count;
    const Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
    const std::string name = whole ? attribute : concat(attribute, number++);
    const Handle made(H5Acreate_by_name(file_, object.c_str(), name.c_str(), type, space,
                                        H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                      H5Aclose);
    ours<hid_t>(made, "create an attribute");
    if (count > 0) ours(H5Awrite(made, type, bytes.data()), "write an attribute");
  }
}

void Writer::dataset(const std::string& name, const Shape& shape, std::span<const float> values) {
  std::vector<hsize_t> extents;
  for (const std::int64_t dim : shape.dims()) extents.push_back(static_cast<hsize_t>(dim));
  const Handle space(
      extents.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
      H5Sclose);
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  const Handle made(
      H5Dcreate2(file_, name.c_str(), H5T_IEEE_F32LE, space, links, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose);
  ours<hid_t>(made, "create a dataset");
  ours(H5Dwrite(made, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
       "write a dataset");
}

Bytes Writer::finish() {
  ours(H5Fflush(file_, H5F_SCOPE_GLOBAL), "flush a file");
  const ssize_t size = ours(H5Fget_file_image(file_, nullptr, 0), "measure a file");
  Bytes content(static_cast<std::size_t>(size));
  ours(H5Fget_file_image(file_, content.data(), content.size()), "copy a file");
  return content;
}

}  // namespace trainer::checkpoint::hdf5
