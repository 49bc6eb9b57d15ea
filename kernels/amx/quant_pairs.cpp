// See quant_pairs.h.
//
// One token is bound by its instructions where weights have four bits: of 16 weights two make the numbers, one cuts
// them and one multiplies them; and there are shifts, which several columns share. What is not exact is rounded to
// nearest by the instruction itself, whatever the thread's rounding is.
#include "amx/quant_pairs.h"

#include <utility>

#include "amx/panels.h"
#include "amx/tile_arithmetic.h"
#include "avx512/quant_fields.h"

namespace qinfer::kernels::amx {
namespace {

using avx512::Meaning;
using avx512::RunScales;

constexpr float kBalance = 1.0f + 0x1.62e43p-9f;
constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

inline __m512 multiplied(__m512 a, __m512 b) { return _mm512_mul_round_ps(a, b, kNearest); }

/// Values of one column of 16 rows; the lower halves are cut off later.
using Column = __m512;

/// The upper halves of two columns as pairs, a line.
inline __m512i pairs_of(Column even, Column odd) {
  return _mm512_ternarylogic_epi32(_mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd),
                                   _mm512_set1_epi32(static_cast<int>(0xffff0000)), 0xd8);
}
inline __m512 cut(Column column) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_castps_si512(column), _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

template <Encoding encoding>
class Decoder {
 public:
  static constexpr QuantLayout kLayout = quant_layout(encoding);
  static constexpr std::int64_t kStepsAhead = 2304 / kLayout.sub + 1;

  static void decode(const std::byte* block, const std::byte* sub, std::int64_t half, std::byte* out) {
    decode_fetching<0>(block, sub, half, out, nullptr);
  }

  static void decode_and_fetch(const std::byte* block, const std::byte* sub, std::int64_t half, std::byte* out,
                               const std::byte* later, bool alone) {
    alone ? decode_fetching<kLines>(block, sub, half, out, later)
          : decode_fetching<kShare>(block, sub, half, out, later + half * kShare * 64);
  }

  template <int tokens>
  static void vectors(const QuantStrips& strips, std::int64_t steps, const float* x, float* const* out) {
    const TileArithmetic arithmetic;
    __m512 sums[QuantStrips::kMost][tokens];
    for (auto& strip : sums)
      for (__m512& sum : strip) sum = _mm512_setzero_ps();
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto& at = reinterpret_cast<const Tokens<tokens>*>(x)[step];
      const SubBlock from = sub_of(kLayout, step);
      const std::int64_t ahead = step + kStepsAhead;
      const StripStep now{from.block, from.at, sub_of(kLayout, ahead < steps ? ahead : ahead - steps).at,
                          ahead >= steps};
      int i = 0;
      for (; i + kTogether<tokens> <= strips.count; i += kTogether<tokens>)
        add_strips<tokens, kTogether<tokens>>(strips, i, now, at, sums);
      for (; i < strips.count; ++i) add_strips<tokens, 1>(strips, i, now, at, sums);
    }
    for (int i = 0; i < strips.count; ++i)
      for (int t = 0; t < tokens; ++t) _mm512_store_ps(out[i] + 16 * t, sums[i][t]);
  }

 private:
  static constexpr TileIntegers kIntegers = kLayout.integers;
  static constexpr TileScales kScales = kLayout.scales;
  static constexpr Meaning kMeaning = avx512::meaning_of(encoding);
  static constexpr bool kMinima = avx512::has_minima(kScales), kTable = avx512::is_table(kMeaning);
  static constexpr int kRuns = avx512::runs_of(kScales);
  static constexpr float kOffset = avx512::offset_of(kMeaning);
  /// Lines of a sub-block, and what one half fetches of them.
  static constexpr std::int64_t kLines = (kLayout.sub + 63) / 64, kShare = (kLines + 1) / 2;

  /// Strips that are taken together, four pairs of columns of each in turns: as many as there are registers for. Bytes
  /// are bound by memory: eight strips of one token read 23 of 24 GB/s that there are on a Granite Rapids (two
  /// threads), and two read 20. Shorter integers are bound by instructions; there additions need not wait for each
  /// other.
  template <int tokens>
  static constexpr int kTogether = kIntegers != TileIntegers::bytes ? 2
                                   : tokens == 1                    ? 8
                                                                    : 4;

  /// Where the bits of a number are put: at bit 8, 12 or 16.
  static constexpr int kPlaces[3] = {8, 12, 16};
  static constexpr float power_of(int place) { return static_cast<float>(1 << (23 - place)); }

  /// Bits of a scale: as many as let (2^15 + kOffset) * scale have 24.
  static constexpr int kScaleBits = kMeaning == Meaning::less_4    ? 10
                                    : kMeaning == Meaning::less_8  ? 11
                                    : kMeaning == Meaning::less_16 ? 12
                                                                   : 13;

  /// What 16 values of each row have in common.
  struct Run {
    __m512 scale;
    __m512 zeros[3];  ///< z, of each place
  };

  [[gnu::always_inline]] static Run run_at(const std::byte* block, const std::byte* sub, int run, std::int64_t half) {
    const RunScales of = avx512::scales_at<kScales>(block, sub, run, static_cast<int>(half));
    Run out;
    out.scale = multiplied(of.scale, _mm512_set1_ps(kBalance));
    if constexpr (kScales == TileScales::e8m0) {
      const __mmask16 normal =
          _mm512_cmp_epu32_mask(_mm512_castps_si512(of.scale), _mm512_set1_epi32(0x800000), _MM_CMPINT_NLT);
      out.scale = _mm512_maskz_mov_ps(normal, out.scale);
    }
    if constexpr (kTable || kIntegers == TileIntegers::bytes) return out;
    if constexpr (kMinima) {
      const __m512 minimum = multiplied(of.minimum, _mm512_set1_ps(kBalance));
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i)
        out.zeros[i] = _mm512_fmadd_round_ps(_mm512_set1_ps(power_of(kPlaces[i])), out.scale, minimum, kNearest);
    } else {
      constexpr int kCut = 24 - kScaleBits;
      const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(out.scale), _mm512_set1_epi32(1 << (kCut - 1)));
      out.scale = _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(-(1 << kCut))));
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i)
        out.zeros[i] = _mm512_mul_ps(_mm512_set1_ps(power_of(kPlaces[i]) + kOffset), out.scale);
    }
    return out;
  }

  /// Numbers at bit `place` of every dword, scaled.
  template <int place>
  [[gnu::always_inline]] static Column scaled(__m512i dwords, const Run& run) {
    constexpr int kMask = (1 << avx512::integer_bits(kIntegers)) - 1;
    constexpr int kZero = place == 8 ? 0 : place == 12 ? 1 : 2;
    const __m512 number = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        dwords, _mm512_set1_epi32(kMask << place), _mm512_castps_si512(_mm512_set1_ps(power_of(place))), 0xea));
    if constexpr (kMinima) return _mm512_fmsub_round_ps(number, run.scale, run.zeros[kZero], kNearest);
    return _mm512_fmsub_ps(number, run.scale, run.zeros[kZero]);  // exact
  }

  /// What the table has for the nibble at bit 4 * nibble of every dword, scaled.
  template <int nibble>
  [[gnu::always_inline]] static Column looked_up(__m512i dwords, const Run& run) {
    alignas(64) static constexpr std::array<float, 32> kNumbers = avx512::table_of(kMeaning);
    const __m512i index = nibble == 0 ? dwords : _mm512_srli_epi32(dwords, 4 * nibble);
    return multiplied(_mm512_permutexvar_ps(index, _mm512_load_ps(kNumbers.data())), run.scale);
  }

  /// The four pairs of a group of 8 columns.
  template <typename Use>
  [[gnu::always_inline]] static void group_of_nibbles(__m512i dwords, const Run& run, int first, Use use) {
    if constexpr (kTable) {
      use(first, looked_up<0>(dwords, run), looked_up<4>(dwords, run));
      use(first + 1, looked_up<1>(dwords, run), looked_up<5>(dwords, run));
      use(first + 2, looked_up<2>(dwords, run), looked_up<6>(dwords, run));
      use(first + 3, looked_up<3>(dwords, run), looked_up<7>(dwords, run));
    } else {
      const __m512i up = _mm512_slli_epi32(dwords, 8), down = _mm512_srli_epi32(dwords, 12);
      use(first, scaled<8>(up, run), scaled<16>(dwords, run));
      use(first + 1, scaled<12>(up, run), scaled<8>(down, run));
      use(first + 2, scaled<8>(dwords, run), scaled<12>(down, run));
      use(first + 3, scaled<12>(dwords, run), scaled<16>(down, run));
    }
  }

  /// The same of integers of five or six bits: each byte of `fields` has one, two to a pair.
  template <typename Use>
  [[gnu::always_inline]] static void group_of_bytes(const avx512::Fields& fields, const Run& run, int first, Use use) {
    const __m512i even = fields.even, odd = fields.odd;
    use(first, scaled<8>(_mm512_slli_epi32(even, 8), run), scaled<16>(even, run));
    use(first + 1, scaled<8>(_mm512_slli_epi32(odd, 8), run), scaled<16>(odd, run));
    use(first + 2, scaled<8>(even, run), scaled<16>(_mm512_srli_epi32(even, 8), run));
    use(first + 3, scaled<8>(odd, run), scaled<16>(_mm512_srli_epi32(odd, 8), run));
  }

  /// A sub-block's 16 rows on their way along its 16 pairs of columns, four pairs at a time.
  struct Walk {
    const std::byte *block, *sub, *at;
    std::int64_t half;
    Run run;

    [[gnu::always_inline]] Walk(const std::byte* block_, const std::byte* sub_, std::int64_t half_)
        : block(block_),
          sub(sub_),
          at(sub_ + kLayout.sub_scales + (kIntegers == TileIntegers::bytes ? 16 : 64) * half_),
          half(half_),
          run(run_at(block_, sub_, 0, half_)) {}

    [[gnu::always_inline]] Column of_bytes(int k) const {
      return multiplied(_mm512_cvtepi32_ps(avx512::load_i8(at + k * kTileRows)), run.scale);
    }

    /// Calls use(pair, even column, odd column) for pairs 4 g to 4 g + 3.
    template <typename Use>
    [[gnu::always_inline]] void group(int g, Use use) {
      if constexpr (kIntegers == TileIntegers::bytes) {
#pragma GCC unroll 4
        for (int pair = 4 * g; pair < 4 * g + 4; ++pair) use(pair, of_bytes(2 * pair), of_bytes(2 * pair + 1));
        return;
      }
      if (kRuns == 2 && g == 2) run = run_at(block, sub, 1, half);
      const __m512i dwords = avx512::dwords_at(at + nibbles_at(kIntegers, g));
      if constexpr (kIntegers == TileIntegers::nibbles) {
        group_of_nibbles(dwords, run, 4 * g, use);
      } else {
        const __m512i plane = avx512::dwords_at(at + plane_at(kIntegers, g));
        const auto shift = static_cast<unsigned>(plane_shift(kIntegers, g));
        group_of_bytes(avx512::fields_of<kIntegers>(dwords, _mm512_srli_epi32(plane, shift)), run, 4 * g, use);
      }
    }
  };

  /// A step of tokens, columns that are even and those that are odd.
  template <int tokens>
  struct Tokens {
    float at[tokens][2][16];
  };

  /// Fetches some of `lines` lines, if there are any, with each of 16 pairs.
  template <std::int64_t lines>
  [[gnu::always_inline]] static void fetch_with(int pair, const std::byte* at) {
#pragma GCC unroll 2
    for (std::int64_t line = pair * lines / 16; line < (pair + 1) * lines / 16; ++line)
      _mm_prefetch(reinterpret_cast<const char*>(at + 64 * line), _MM_HINT_T0);
  }

  template <std::int64_t lines>
  static void decode_fetching(const std::byte* block, const std::byte* sub, std::int64_t half, std::byte* out,
                              const std::byte* later) {
    Walk walk(block, sub, half);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g)
      walk.group(
          g, [&](int pair, Column even, Column odd) __attribute__((always_inline)) {
            fetch_with<lines>(pair, later);
            _mm512_store_si512(out + 64 * pair, pairs_of(even, odd));
          });
  }

  /// A strip's chains of sums within a step.
  template <int tokens>
  struct Chains {
    __m512 even[tokens], odd[tokens];
    [[gnu::always_inline]] Chains() {
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) even[t] = odd[t] = _mm512_setzero_ps();
    }
    [[gnu::always_inline]] void add(const Tokens<tokens>& x, int pair, Column low, Column high) {
      const __m512 first = cut(low), second = cut(high);
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) {
        even[t] = _mm512_fmadd_ps(first, _mm512_set1_ps(x.at[t][0][pair]), even[t]);
        odd[t] = _mm512_fmadd_ps(second, _mm512_set1_ps(x.at[t][1][pair]), odd[t]);
      }
    }
    [[gnu::always_inline]] void add_to(__m512 (&sums)[tokens]) const {
#pragma GCC unroll 4
      for (int t = 0; t < tokens; ++t) sums[t] = _mm512_add_ps(sums[t], _mm512_add_ps(even[t], odd[t]));
    }
  };

  /// Where a step of some strips is.
  struct StripStep {
    std::int64_t block, sub;  ///< bytes from the beginning of each tile
    std::int64_t later;       ///< what is fetched meanwhile, from there or from the beginning of the next tile
    bool in_next;
  };

  /// Adds a step of strips [i, i + n) to their sums, and fetches each one's half of the lines of a later step.
  template <int tokens, int n>
  [[gnu::always_inline]] static void add_strips(const QuantStrips& strips, int i, const StripStep& step,
                                                const Tokens<tokens>& x_, __m512 (*sums)[tokens]) {
    const Tokens<tokens>* x = &x_;
    asm("" : "+r"(x));  // otherwise the compiler keeps the broadcasts of some strips for others, on the stack
    const std::byte* later[n];
    Chains<tokens> chains[n];
#pragma GCC unroll 8
    for (int s = 0; s < n; ++s)
      later[s] = (step.in_next ? strips.next[i + s] : strips.at[i + s]) + step.later + strips.half[i + s] * kShare * 64;
    [&]<int... s>(std::integer_sequence<int, s...>) __attribute__((always_inline)) {
      Walk walks[n] = {Walk(strips.at[i + s] + step.block, strips.at[i + s] + step.sub, strips.half[i + s])...};
#pragma GCC unroll 4
      for (int g = 0; g < 4; ++g) {
        const auto one = [&](int which) __attribute__((always_inline)) {
          walks[which].group(
              g, [&](int pair, Column low, Column high) __attribute__((always_inline)) {
                fetch_with<kShare>(pair, later[which]);
                chains[which].add(*x, pair, low, high);
              });
        };
        (one(s), ...);
      }
    }
    (std::make_integer_sequence<int, n>());
#pragma GCC unroll 8
    for (int s = 0; s < n; ++s) chains[s].add_to(sums[i + s]);
  }
};

template <Encoding encoding>
constexpr QuantPairs kPairsOf = {Decoder<encoding>::kLayout,
                                 Decoder<encoding>::kStepsAhead,
                                 Decoder<encoding>::decode,
                                 Decoder<encoding>::decode_and_fetch,
                                 {Decoder<encoding>::template vectors<1>, Decoder<encoding>::template vectors<2>}};

}  // namespace

const QuantPairs& quant_pairs(Encoding encoding) {
  switch (encoding) {
    case Encoding::q8_0: return kPairsOf<Encoding::q8_0>;
    case Encoding::q4_1: return kPairsOf<Encoding::q4_1>;
    case Encoding::q5_0: return kPairsOf<Encoding::q5_0>;
    case Encoding::q5_1: return kPairsOf<Encoding::q5_1>;
    case Encoding::q3_k: return kPairsOf<Encoding::q3_k>;
    case Encoding::q4_k: return kPairsOf<Encoding::q4_k>;
    case Encoding::q5_k: return kPairsOf<Encoding::q5_k>;
    case Encoding::q6_k: return kPairsOf<Encoding::q6_k>;
    case Encoding::iq4_nl: return kPairsOf<Encoding::iq4_nl>;
    case Encoding::iq4_xs: return kPairsOf<Encoding::iq4_xs>;
    case Encoding::mxfp4: return kPairsOf<Encoding::mxfp4>;
    case Encoding::q4_0:
    case Encoding::f32:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return kPairsOf<Encoding::q4_0>;
}

}  // namespace qinfer::kernels::amx
