#include "data/jpeg/plain.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "data/jpeg/kernels.h"

namespace trainer::data::jpeg {
namespace {

int ceil_divide(int a, int b) { return (a + b - 1) / b; }

// ---- The entropy-coded bytes, one restart interval at a time ----

class Scan {
 public:
  // `clean` is scratch memory that outlives this.
  Scan(File file, std::vector<std::uint8_t>& clean)
      : at_(file.data()), end_(file.data() + file.size()), clean_(clean) {
    if (clean_.size() < file.size() + kSlack) clean_.resize(file.size() + kSlack);
    open();
  }

  BitReader& reader() { return reader_; }
  // Returns whether many codes so far were long. A code and its number have about 8 bits.
  bool often_long() const {
    return reader_.long_codes * 160 > static_cast<std::uint64_t>(used_before_ + used_bits());
  }
  // Returns whether at most as many bits were taken as exist.
  bool within() const { return used_bits() <= bits_; }
  // Skips a restart marker, which must follow immediately and have the next number.
  bool restart() {
    if (bits_ - used_bits() >= 8 || end_ - at_ < 2 || at_[0] != 0xFF) return false;
    if (at_[1] != 0xD0 + (restarts_++ & 7)) return false;
    at_ += 2;
    open();
    return true;
  }

 private:
  static constexpr std::size_t kSlack = 2 * kMaxMcuBytes + 64;

  void open() {
    std::uint8_t* end = clean_.data();
    at_ = unstuff(at_, end_, end);
    std::memset(end, 0, kSlack);
    bits_ = 8 * (end - clean_.data());
    if (reader_.next != nullptr) used_before_ += used_bits();
    reader_ = {clean_.data(), 0, 0, reader_.long_codes};
  }
  std::ptrdiff_t used_bits() const {
    return 8 * (reader_.next - clean_.data()) - static_cast<std::ptrdiff_t>(reader_.count & 63);
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  std::vector<std::uint8_t>& clean_;
  BitReader reader_{};
  std::ptrdiff_t bits_ = 0, used_before_ = 0;
  int restarts_ = 0;
};

// ---- Samples of one component ----

// The rows of two bands of MCUs in alternation, as chroma rows are mixed with those of the next
// band.
struct Plane {
  static constexpr int kMargin = 64;  // readable and writable bytes before and behind a row

  std::vector<std::uint8_t> memory;
  std::ptrdiff_t stride = 0;
  int band_rows = 0;
  int height = 0, width = 0;  // without the padding to whole MCUs

  std::uint8_t* row(int y) { return memory.data() + (y % (2 * band_rows)) * stride + kMargin; }
};

struct Scratch {
  std::vector<std::uint8_t> clean;
  std::array<Plane, 3> planes;
  std::vector<std::uint8_t> blue, red;  // chroma rows of full width
};

// The upsampling of chroma to the size of luma.
enum class Widen { kNot, kAcross, kBoth };

class Decoder {
 public:
  Decoder(File file, const Header& header, bool grey, int reduce, Scratch& scratch, Pixels& out)
      : header_(header),
        luma_(header.component[0]),
        used_(grey ? 1 : 3),
        size_(8 / reduce),
        scratch_(scratch),
        out_(out),
        scan_(file.subspan(header.scan), scratch.clean) {
    out_.reset(ceil_divide(header.height, reduce), ceil_divide(header.width, reduce), used_);
    mcus_across_ = ceil_divide(header.width, 8 * luma_.h);
    mcus_down_ = ceil_divide(header.height, 8 * luma_.v);
  }

  bool run() {
    if (!choose_widening() || !plan()) return false;
    for (int band = 0; band < mcus_down_; ++band) {
      if (!decode_band(band)) return false;
      if (scan_.often_long()) decode_mcu_ = mcu_decoder(true);
      emit(band);
    }
    return true;
  }

 private:
  // At a reduced size, libjpeg decodes chroma at twice the size instead of widening it. It does not
  // weigh neighbours if a row is very short or luma has one sample per block.
  bool choose_widening() {
    const bool both = luma_.v == 2, across = luma_.h == 2 && !both;
    chroma_size_ = both && size_ < 8 ? 2 * size_ : size_;
    inverse_luma_ = inverse_dct(size_);
    inverse_chroma_ = inverse_dct(chroma_size_);
    if (used_ == 1) return true;
    widen_ = across ? Widen::kAcross : both && size_ == 8 ? Widen::kBoth : Widen::kNot;
    return widen_ == Widen::kNot || (size_ > 1 && chroma_width() > 2);
  }
  int chroma_width() const { return ceil_divide(header_.width * chroma_size_, 8 * luma_.h); }

  bool plan() {
    int pairs = 0, blocks = 0;
    for (int c = 0; c < header_.components; ++c) {
      const std::size_t i = c;
      const Component& one = header_.component[i];
      const auto code = [](const auto& codes, int index) { return codes[index]; };
      const HuffmanTable* dc = get_table(code(header_.dc, one.dc), true, one.dc);
      const HuffmanTable* ac = get_table(code(header_.ac, one.ac), false, 4 + one.ac);
      if (dc == nullptr || ac == nullptr) return false;
      for (int block = 0; block < one.h * one.v; ++block, ++blocks) {
        for (int mcu = 0; mcu < 2; ++mcu) {
          const int across = mcu * one.h + block % one.h;
          const int pair = pairs + block / one.h * one.h + across / 2;
          plan_[mcu][blocks] = {dc, ac, c, pair, across % 2};
        }
      }
      first_pair_[i] = pairs;
      pairs += one.h * one.v;
      set_table(header_.quant[one.quant], tables_[i]);
      if (c < used_) set_plane(one, c == 0 ? size_ : chroma_size_, scratch_.planes[i]);
    }
    blocks_ = blocks;
    const std::size_t chroma = static_cast<std::size_t>(out_.width()) + 2 * Plane::kMargin;
    scratch_.blue.resize(chroma);
    scratch_.red.resize(chroma);
    return true;
  }

  static void set_table(const std::uint8_t* values, std::int16_t* table) {
    for (int i = 0; i < 64; ++i) {
      const int at = (kZigzag[i] >> 3) * 16 + (kZigzag[i] & 7);
      table[at] = table[at + kPairLane] = values[i];
    }
  }

  void set_plane(const Component& one, int size, Plane& plane) const {
    const int pairs = (mcus_across_ + 1) / 2 * one.h;
    plane.stride = 2 * Plane::kMargin + 2 * pairs * size;
    plane.band_rows = one.v * size;
    plane.height = ceil_divide(header_.height * one.v * size, 8 * luma_.v);
    plane.width = ceil_divide(header_.width * one.h * size, 8 * luma_.h);
    plane.memory.resize(plane.stride * 2 * plane.band_rows);
  }

  // Decodes two MCUs together, so that their blocks are pairs of neighbours.
  bool decode_band(int band) {
    for (int x = 0; x < mcus_across_; x += 2) {
      std::memset(last_, 0, sizeof last_);
      for (int mcu = 0; mcu < std::min(2, mcus_across_ - x); ++mcu) {
        if (!decode_one(plan_[mcu])) return false;
      }
      for (int c = 0; c < header_.components; ++c) transform(c, band, x);
    }
    // Fails for a prediction that is outside the range of samples.
    return std::ranges::all_of(
        predictions_, [](std::int32_t value) { return value == static_cast<std::int16_t>(value); });
  }

  bool decode_one(const BlockPlan* plan) {
    if (header_.restart_interval > 0 && mcus_ == header_.restart_interval) {
      if (!scan_.restart()) return false;
      std::ranges::fill(predictions_, 0);
      mcus_ = 0;
    }
    ++mcus_;
    return decode_mcu_(scan_.reader(), plan, blocks_, predictions_, coefficients_, last_) &&
           scan_.within();
  }

  void transform(int c, int band, int x) {
    const std::size_t i = c;
    const Component& one = header_.component[i];
    const int pairs = one.h * one.v;
    std::int16_t* pair = coefficients_ + first_pair_[i] * kPairSize;
    if (c >= used_) {
      std::fill_n(pair, pairs * kPairSize, std::int16_t{0});
      return;
    }
    const int size = c == 0 ? size_ : chroma_size_;
    const InverseDct inverse = c == 0 ? inverse_luma_ : inverse_chroma_;
    Plane& plane = scratch_.planes[i];
    for (int p = 0; p < pairs; ++p, pair += kPairSize) {
      std::uint8_t* out = plane.row(band * plane.band_rows + p / one.h * size);
      inverse(pair, tables_[i], last_ + 2 * (first_pair_[i] + p),
              out + (x * one.h + 2 * (p % one.h)) * size, plane.stride);
    }
  }

  // ---- Rows of pixels ----

  // Emits all rows whose samples the bands so far contain.
  void emit(int band) {
    if (widen_ != Widen::kNot) {
      for (std::size_t c = 1; c < 3; ++c) pad_ends(scratch_.planes[c], band);
    }
    const bool last = band + 1 == mcus_down_;
    const int rows = (band + 1) * scratch_.planes[0].band_rows;
    const int end = last ? out_.height() : widen_ == Widen::kBoth ? rows - 1 : rows;
    for (; emitted_ < end; ++emitted_) emit_row(emitted_);
  }

  // Repeats the first and last samples beyond the ends of rows.
  static void pad_ends(Plane& plane, int band) {
    for (int y = 0; y < plane.band_rows; ++y) {
      std::uint8_t* row = plane.row(band * plane.band_rows + y);
      row[-1] = row[0];
      row[plane.width] = row[plane.width - 1];
    }
  }

  void emit_row(int y) {
    const std::uint8_t* luma = scratch_.planes[0].row(y);
    if (used_ == 1) {
      std::memcpy(out_.row(y), luma, out_.row_bytes());
      return;
    }
    to_rgb(luma, chroma(scratch_.planes[1], y, scratch_.blue),
           chroma(scratch_.planes[2], y, scratch_.red), out_.width(), out_.row(y));
  }

  const std::uint8_t* chroma(Plane& plane, int y, std::vector<std::uint8_t>& wide) const {
    if (widen_ == Widen::kNot) return plane.row(y);
    if (widen_ == Widen::kAcross) {
      widen(plane.row(y), plane.width, wide.data());
    } else {
      const int far_row = std::clamp(y / 2 + (y % 2 == 0 ? -1 : 1), 0, plane.height - 1);
      widen(plane.row(y / 2), plane.row(far_row), plane.width, wide.data());
    }
    return wide.data();
  }

  const Header& header_;
  const Component& luma_;
  int used_;  // components of the output
  int size_;  // samples across a block of luma
  int chroma_size_ = 0;
  Widen widen_ = Widen::kNot;
  Scratch& scratch_;
  Pixels& out_;
  Scan scan_;
  int mcus_across_ = 0, mcus_down_ = 0;
  int blocks_ = 0;
  int mcus_ = 0;     // since the last restart
  int emitted_ = 0;  // rows
  McuDecoder decode_mcu_ = mcu_decoder(false);
  InverseDct inverse_luma_ = nullptr, inverse_chroma_ = nullptr;
  BlockPlan plan_[2][6] = {};
  std::array<int, 3> first_pair_{};
  std::int32_t predictions_[3] = {};
  std::uint8_t last_[12] = {};
  alignas(64) std::int16_t tables_[3][128] = {};
  alignas(64) std::int16_t coefficients_[6 * kPairSize] = {};
};

}  // namespace

bool decode_plain(File file, const Header& header, int channels, int reduce, Pixels& out) {
  static const bool kRuns = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
                            __builtin_cpu_supports("bmi");
  if (!kRuns) return false;
  thread_local Scratch scratch;
  return Decoder(file, header, header.components == 1 || channels == 1, reduce, scratch, out).run();
}

}  // namespace trainer::data::jpeg
