// See quantise.h. The loops run over eight sums side by side, which fixes their order and lets compilers vectorise.
#include "base/quantise.h"

#include <algorithm>
#include <cmath>

#include "base/block_packing.h"

namespace qinfer {
namespace {

using blocks::kLongBlock;
using blocks::kRun;
using blocks::kShortRun;
using blocks::Parts;

constexpr std::int64_t kLanes = 8;

float sum_lanes(const float* lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// Below this every scale is 0 in f16, and 1 / x might overflow.
constexpr float kTooSmall = 0x1p-30f;

/// Least-squares minima may be a little beyond the values.
std::uint16_t to_f16(float x) { return f32_to_f16(std::clamp(x, -kLargestQuantised, kLargestQuantised)); }

/// A scale that is not zero does not become zero: multiples of f16's smallest number are still nearer to the values.
std::uint16_t scale_to_f16(float d) {
  const std::uint16_t bits = to_f16(d);
  return (bits & 0x7fff) == 0 && d != 0 ? static_cast<std::uint16_t>(bits | 1) : bits;
}

float inverse_of(float x) { return x == 0 ? 0.0f : 1.0f / x; }

/// The integers low .. high.
template <int low, int high>
struct Integers {
  static constexpr int kLow = low, kHigh = high;
  static float nearest(float v) {
    constexpr float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    v = v < static_cast<float>(low) ? static_cast<float>(low) : v;
    v = v > static_cast<float>(high) ? static_cast<float>(high) : v;
    return (v + magic) - magic;
  }
  static std::uint8_t code(float v) { return static_cast<std::uint8_t>(static_cast<int>(nearest(v)) - low); }
};

/// The sixteen values of iq4_nl.
struct Iq4Table {
  static constexpr int kLow = -127, kHigh = 113;  // the first and the last
  static float nearest(float v) {
    float found = kLow;
    for (int i = 0; i < 15; ++i) found += v > middle(i) ? static_cast<float>(step(i)) : 0.0f;
    return found;
  }
  static std::uint8_t code(float v) {
    int found = 0;
    for (int i = 0; i < 15; ++i) found += v > middle(i) ? 1 : 0;
    return static_cast<std::uint8_t>(found);
  }

 private:
  static constexpr int step(int i) { return blocks::kIq4Values[i + 1] - blocks::kIq4Values[i]; }
  static constexpr float middle(int i) {
    return 0.5f * static_cast<float>(blocks::kIq4Values[i + 1] + blocks::kIq4Values[i]);
  }
};

/// Of values x and the levels q that x * inverse is nearest to: the sums that the least-squares scale follows from.
struct ScaleSums {
  float xq = 0, qq = 0;
  float scale() const { return qq > 0 ? xq / qq : 0.0f; }
  /// What the best scale for these levels takes off the sum of the squares of x.
  float gain() const { return qq > 0 ? xq * xq / qq : 0.0f; }
};

template <class Levels, std::int64_t n>
ScaleSums scale_sums(const float* x, float inverse) {
  float xq[kLanes] = {}, qq[kLanes] = {};
  for (std::int64_t i = 0; i < n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float q = Levels::nearest(x[i + j] * inverse);
      xq[j] += x[i + j] * q;
      qq[j] += q * q;
    }
  return {sum_lanes(xq), sum_lanes(qq)};
}

/// Of the largest magnitude, with its sign.
template <std::int64_t n>
float largest_value(const float* x) {
  float largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::fabs(x[i]) > std::fabs(largest) ? x[i] : largest;
  return largest;
}

/// The levels that the largest value is tried at: end + offset, for offsets first, first + step, ... outwards from an
/// end of the range.
struct Search {
  float first, step;
  int steps;
};

/// The scale d for which d * q comes near to n values x, q being levels. The largest value is tried at and around both
/// ends of the range.
template <class Levels, std::int64_t n>
float fit_scale(const float* x, const Search& search) {
  const float largest = largest_value<n>(x);
  if (std::fabs(largest) < kTooSmall) return 0;
  ScaleSums best;
  for (const float end : {static_cast<float>(Levels::kLow), static_cast<float>(Levels::kHigh)})
    for (int i = 0; i < search.steps; ++i) {
      const float offset = search.first + static_cast<float>(i) * search.step;
      const ScaleSums sums = scale_sums<Levels, n>(x, (end < 0 ? end - offset : end + offset) / largest);
      if (sums.gain() > best.gain()) best = sums;
    }
  for (int i = 0; i < 2; ++i) {
    const ScaleSums sums = scale_sums<Levels, n>(x, inverse_of(best.scale()));
    if (sums.gain() > best.gain()) best = sums;
  }
  return best.scale();
}

/// Of values x, the levels q that (x - low) * inverse is nearest to: the line through them.
struct Line {
  float scale = 0, minimum = 0;  ///< scale * q + minimum
  float gain = -1;               ///< taken off the sum of the squares of x - low
};

/// `negative`: the minimum must not be positive. The values are taken from `low` on, which loses fewer bits.
template <class Levels, std::int64_t n>
Line fit_line(const float* x, float low, float inverse, bool negative) {
  float q1[kLanes] = {}, q2[kLanes] = {}, y1[kLanes] = {}, yq[kLanes] = {};
  for (std::int64_t i = 0; i < n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float y = x[i + j] - low, q = Levels::nearest(y * inverse);
      q1[j] += q;
      q2[j] += q * q;
      y1[j] += y;
      yq[j] += y * q;
    }
  const float q = sum_lanes(q1), qq = sum_lanes(q2), y = sum_lanes(y1), yq_sum = sum_lanes(yq);
  const float count = static_cast<float>(n), determinant = count * qq - q * q;
  if (qq <= 0) return {};
  Line line;
  if (determinant > 0) {
    line.scale = (count * yq_sum - y * q) / determinant;
    line.minimum = low + (y - line.scale * q) / count;
  } else {  // all the same
    line.scale = yq_sum / qq;
    line.minimum = low;
  }
  if (negative && line.minimum > 0) {  // y = scale * q - low: the best line through that point
    line.minimum = 0;
    line.scale = (yq_sum + low * q) / qq;
  }
  const float offset = line.minimum - low;  // sum of y^2 less that of (y - scale * q - offset)^2
  line.gain = 2 * (line.scale * yq_sum + offset * y) -
              (line.scale * line.scale * qq + 2 * line.scale * offset * q + count * offset * offset);
  return line;
}

/// The scale and minimum for which scale * q + minimum comes near to n values x, q being levels from 0 on.
template <class Levels, std::int64_t n>
Line search_line(const float* x, const Search& search, bool negative) {
  float low = x[0], high = x[0];
  for (std::int64_t i = 1; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  if (negative && low > 0) low = 0;
  Line best{0, low, -1};
  const float range = high - low;
  if (range < kTooSmall) return best;
  for (int i = 0; i < search.steps; ++i) {
    const float levels = static_cast<float>(Levels::kHigh) + search.first + static_cast<float>(i) * search.step;
    const Line line = fit_line<Levels, n>(x, low, levels / range, negative);
    if (line.gain > best.gain) best = line;
  }
  return best;
}

/// Blocks of one scale: d * q.
template <class Levels, void (*pack)(const Parts&, std::byte*)>
void quantise_scaled(const float* x, float d, std::byte* out) {
  Parts parts;
  parts.d = scale_to_f16(d);
  const float inverse = inverse_of(f16_to_f32(parts.d));
  for (std::int64_t i = 0; i < kRun; ++i) parts.q[i] = Levels::code(x[i] * inverse);
  pack(parts, out);
}

void quantise_q8_0(const float* x, std::byte* out) {
  // 255 levels, not 256: code that negates the integers must not meet -128. A search gains next to nothing here.
  const float d = std::fabs(largest_value<kRun>(x)) / 127;
  Parts parts;
  parts.d = scale_to_f16(d);
  const float inverse = inverse_of(f16_to_f32(parts.d));
  for (std::int64_t i = 0; i < kRun; ++i)
    parts.q[i] = static_cast<std::uint8_t>(Integers<-127, 127>::code(x[i] * inverse) + 1);
  blocks::pack_q8_0(parts, out);
}

void quantise_q4_0(const float* x, std::byte* out) {
  using Levels = Integers<-8, 7>;
  quantise_scaled<Levels, blocks::pack_q4_0>(x, fit_scale<Levels, kRun>(x, {-1.75f, 0.25f, 10}), out);
}

void quantise_q5_0(const float* x, std::byte* out) {
  using Levels = Integers<-16, 15>;
  quantise_scaled<Levels, blocks::pack_q5_0>(x, fit_scale<Levels, kRun>(x, {-1.5f, 0.25f, 9}), out);
}

void quantise_iq4_nl(const float* x, std::byte* out) {
  quantise_scaled<Iq4Table, blocks::pack_q4_0>(x, fit_scale<Iq4Table, kRun>(x, {-24, 4, 12}), out);
}

/// Blocks of a scale and a minimum: d * q + m.
template <class Levels, void (*pack)(const Parts&, std::byte*)>
void quantise_with_minimum(const float* x, std::byte* out) {
  const Line line = search_line<Levels, kRun>(x, {-1, 0.2f, 10}, false);
  Parts parts;
  parts.d = scale_to_f16(line.scale);
  parts.m = to_f16(line.minimum);
  const float inverse = inverse_of(f16_to_f32(parts.d)), m = f16_to_f32(parts.m);
  for (std::int64_t i = 0; i < kRun; ++i) parts.q[i] = Levels::code((x[i] - m) * inverse);
  pack(parts, out);
}

/// The sum of the squared errors of n values x as scale * q + minimum.
template <class Levels, std::int64_t n>
float squared_error(const float* x, float scale, float minimum) {
  const float inverse = inverse_of(scale);
  float sums[kLanes] = {};
  for (std::int64_t i = 0; i < n; i += kLanes)
    for (std::int64_t j = 0; j < kLanes; ++j) {
      const float y = x[i + j] - minimum, e = y - scale * Levels::nearest(y * inverse);
      sums[j] += e * e;
    }
  return sum_lanes(sums);
}

int nearest_int(float v, int low, int high) {
  return static_cast<int>(
      Integers<-256, 256>::nearest(std::clamp(v, static_cast<float>(low), static_cast<float>(high))));
}

/// Long blocks with a scale for 16 values: d * sc * q, sc being integers of low .. high.
template <class Levels, int low, int high, void (*pack)(const Parts&, std::byte*)>
void quantise_long(const float* x, const Search& search, std::byte* out) {
  constexpr std::int64_t runs = kLongBlock / kShortRun;
  float scales[runs], largest = 0;
  for (std::int64_t j = 0; j < runs; ++j) {
    scales[j] = fit_scale<Levels, kShortRun>(x + j * kShortRun, search);
    largest = std::fabs(scales[j]) > std::fabs(largest) ? scales[j] : largest;
  }
  Parts parts;
  parts.d = scale_to_f16(largest / low);
  const float d = f16_to_f32(parts.d), inverse = inverse_of(d);
  for (std::int64_t j = 0; j < runs; ++j) {
    const float* run = x + j * kShortRun;
    const int middle = nearest_int(scales[j] * inverse, low, high);
    int best = middle;
    float least = squared_error<Levels, kShortRun>(run, d * static_cast<float>(middle), 0);
    for (const int scale : {middle - 1, middle + 1}) {
      if (scale < low || scale > high) continue;
      const float error = squared_error<Levels, kShortRun>(run, d * static_cast<float>(scale), 0);
      if (error >= least) continue;
      least = error;
      best = scale;
    }
    parts.scales[j] = static_cast<std::int8_t>(best);
    const float by = inverse_of(d * static_cast<float>(best));
    for (std::int64_t i = 0; i < kShortRun; ++i) parts.q[j * kShortRun + i] = Levels::code(run[i] * by);
  }
  pack(parts, out);
}

void quantise_q3_k(const float* x, std::byte* out) {
  quantise_long<Integers<-4, 3>, -32, 31, blocks::pack_q3_k>(x, {-1.25f, 0.25f, 8}, out);
}

void quantise_q6_k(const float* x, std::byte* out) {
  quantise_long<Integers<-32, 31>, -128, 127, blocks::pack_q6_k>(x, {-1.25f, 0.25f, 8}, out);
}

/// Writes the scale, the minimum and the integers of one run of a long block with minima: of those near the pair that
/// was searched for, the one with the least error.
template <class Levels>
void quantise_run(const float* x, const Line& line, std::int64_t j, Parts& parts) {
  const float d = f16_to_f32(parts.d), dmin = f16_to_f32(parts.m);
  const int scale = nearest_int(line.scale * inverse_of(d), 0, 63);
  const int minimum = nearest_int(-line.minimum * inverse_of(dmin), 0, 63);
  int best_scale = scale, best_minimum = minimum;
  float least = INFINITY;
  for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, 63); ++s)
    for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, 63); ++m) {
      const float error = squared_error<Levels, kRun>(x, d * static_cast<float>(s), -dmin * static_cast<float>(m));
      if (error >= least) continue;
      least = error;
      best_scale = s;
      best_minimum = m;
    }
  parts.scales[j] = static_cast<std::int8_t>(best_scale);
  parts.minima[j] = static_cast<std::uint8_t>(best_minimum);
  const float inverse = inverse_of(d * static_cast<float>(best_scale)), m = dmin * static_cast<float>(best_minimum);
  for (std::int64_t i = 0; i < kRun; ++i) parts.q[j * kRun + i] = Levels::code((x[i] + m) * inverse);
}

/// Long blocks with a scale and a minimum for 32 values: d * sc * q - dmin * m, sc and m being 0 .. 63.
template <class Levels, void (*pack)(const Parts&, std::byte*)>
void quantise_long_with_minima(const float* x, std::byte* out) {
  constexpr std::int64_t runs = kLongBlock / kRun;
  Line lines[runs];
  float largest = 0, lowest = 0;
  for (std::int64_t j = 0; j < runs; ++j) {
    lines[j] = search_line<Levels, kRun>(x + j * kRun, {-1, 0.2f, 10}, true);
    largest = std::max(largest, lines[j].scale);
    lowest = std::min(lowest, lines[j].minimum);
  }
  Parts parts;
  parts.d = scale_to_f16(largest / 63);
  parts.m = scale_to_f16(-lowest / 63);
  for (std::int64_t j = 0; j < runs; ++j) quantise_run<Levels>(x + j * kRun, lines[j], j, parts);
  pack(parts, out);
}

using BlockFunction = void (*)(const float* x, std::byte* out);

BlockFunction block_function(Encoding to) {
  switch (to) {
    case Encoding::q8_0: return quantise_q8_0;
    case Encoding::q4_0: return quantise_q4_0;
    case Encoding::q4_1: return quantise_with_minimum<Integers<0, 15>, blocks::pack_q4_1>;
    case Encoding::q5_0: return quantise_q5_0;
    case Encoding::q5_1: return quantise_with_minimum<Integers<0, 31>, blocks::pack_q5_1>;
    case Encoding::q3_k: return quantise_q3_k;
    case Encoding::q4_k: return quantise_long_with_minima<Integers<0, 15>, blocks::pack_q4_k>;
    case Encoding::q5_k: return quantise_long_with_minima<Integers<0, 31>, blocks::pack_q5_k>;
    case Encoding::q6_k: return quantise_q6_k;
    case Encoding::iq4_nl: return quantise_iq4_nl;
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16:
    case Encoding::iq4_xs:
    case Encoding::mxfp4: break;
  }
  return nullptr;
}

}  // namespace

bool can_quantise_to(Encoding to) { return block_function(to) != nullptr; }

std::int64_t find_unquantisable(const float* values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (!(std::fabs(values[i]) <= kLargestQuantised)) return i;
  return -1;
}

void quantise(Encoding to, const float* values, std::int64_t n, std::byte* out) {
  const BlockFunction block = block_function(to);
  const EncodingTraits& traits = encoding_traits(to);
  for (std::int64_t i = 0; i < n; i += traits.block_values, out += traits.block_bytes) block(values + i, out);
}

}  // namespace qinfer
