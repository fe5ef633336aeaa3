// Linear layers in float32, bfloat16 and 8 bits: `multiply`.

#pragma once

#include "native_vectors.h"
#if defined(__AVX512VNNI__) || defined(__AVX512BF16__)
#include <immintrin.h>
#endif

// Sums of a tile of ROWS x VECTORS stay in registers.
#ifdef __AVX512F__
constexpr int VECTORS = 4, ROWS = 6;
#else
constexpr int VECTORS = 2, ROWS = 4;
#endif
constexpr int PANEL = LANES * VECTORS;

enum Precision { FLOAT32, BFLOAT16, INT8 };
enum Activation { NONE, RELU, SWISH };

struct Linear {
    int32_t precision, inputs, outputs, activation;
    const void *panels;    // weights of PANEL outputs side by side, input by input
    const float *scales;   // of 8-bit weights
    const int32_t *shifts; // 128 times their sums, since inputs are stored without a sign
    const float *bias;     // of all panels
};

namespace {

// The kinds of products: a unit is as many neighboring inputs as 32 bits hold.

struct Float32 {
    using Unit = float;
    using Sums = Floats;
    static constexpr int GROUP = 1;
    static Sums add(Sums sums, Unit x, const void *w) { return sums + x * load<Floats>(w); }
    static Floats finish(Sums sums, float, const Linear &, int64_t) { return sums; }
};

#ifdef __AVX512BF16__
struct BFloat16 {
    using Unit = int32_t;
    using Sums = Floats;
    static constexpr int GROUP = 2;
    static Sums add(Sums sums, Unit x, const void *w) {
        const auto weights = (__m512bh)_mm512_loadu_si512(w);
        return (Floats)_mm512_dpbf16_ps((__m512)sums, (__m512bh)_mm512_set1_epi32(x), weights);
    }
    static float convert(const float *x, int64_t count, Unit *units) {
        auto *low = (uint16_t *)units;
        for (int64_t i = 0; i < count; ++i) {
            uint32_t bits;
            std::memcpy(&bits, x + i, 4);
            low[i] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; // to the nearest, ties to even
        }
        return 1;
    }
    static Floats finish(Sums sums, float, const Linear &, int64_t) { return sums; }
};
#endif

#ifdef __AVX512VNNI__
struct Int8 {
    using Unit = int32_t;
    using Sums = Ints;
    static constexpr int GROUP = 4;
    static Sums add(Sums sums, Unit x, const void *w) {
        const auto weights = _mm512_loadu_si512(w);
        return (Ints)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi32(x), weights);
    }
    static float convert(const float *x, int64_t count, Unit *units) {
        float most = 1e-8f;
#pragma omp simd reduction(max : most)
        for (int64_t i = 0; i < count; ++i) most = std::max(most, std::fabs(x[i]));
        auto *bytes = (uint8_t *)units;
        const float scale = 127 / most;
        for (int64_t i = 0; i < count; ++i) bytes[i] = (uint8_t)(int)(x[i] * scale + 128.5f);
        return most / 127;
    }
    static Floats finish(Sums sums, float scale, const Linear &linear, int64_t output) {
        const Ints signed_sums = sums - load<Ints>(linear.shifts + output);
        return __builtin_convertvector(signed_sums, Floats) * scale * load<Floats>(linear.scales + output);
    }
};
#endif

Floats activate(Floats x, int activation) {
    const Floats zero = {};
    if (activation == RELU) return x > zero ? x : zero;
    return activation == SWISH ? x / (1 + exponential(-x)) : x;
}

// y = x W^T + b for COUNT rows and one panel of outputs.
template <class Kind, int COUNT>
void multiply_tile(const Linear &linear, const typename Kind::Unit *x, const float *scales, int64_t output, float *y) {
    const int64_t units = linear.inputs / Kind::GROUP;
    const auto *w = (const typename Kind::Unit *)linear.panels + output * units;
    typename Kind::Sums sums[COUNT][VECTORS] = {};
    for (int64_t unit = 0; unit < units; ++unit, w += PANEL)
#pragma GCC unroll 8
        for (int row = 0; row < COUNT; ++row)
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v) sums[row][v] = Kind::add(sums[row][v], x[row * units + unit], w + v * LANES);
#pragma GCC unroll 8
    for (int row = 0; row < COUNT; ++row)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v) {
            const int64_t at = output + v * LANES;
            const Floats found = Kind::finish(sums[row][v], scales[row], linear, at) + load<Floats>(linear.bias + at);
            const Floats active = activate(found, linear.activation);
            const int64_t left = std::clamp<int64_t>(linear.outputs - at, 0, LANES);
            std::memcpy(y + row * linear.outputs + at, &active, left == LANES ? sizeof active : left * sizeof(float));
        }
}

template <class Kind>
void multiply_units(const Linear &linear, const typename Kind::Unit *x, const float *scales, int64_t rows, float *y) {
    const int64_t units = linear.inputs / Kind::GROUP;
    for (int64_t output = 0; output < linear.outputs; output += PANEL)
        for (int64_t row = 0; row < rows; row += ROWS) {
            const auto *from = x + row * units;
            const float *scale = scales + row;
            float *to = y + row * linear.outputs;
            switch (std::min<int64_t>(rows - row, ROWS)) {
            case 1: multiply_tile<Kind, 1>(linear, from, scale, output, to); break;
            case 2: multiply_tile<Kind, 2>(linear, from, scale, output, to); break;
            case 3: multiply_tile<Kind, 3>(linear, from, scale, output, to); break;
            case 4: multiply_tile<Kind, 4>(linear, from, scale, output, to); break;
            case 5: multiply_tile<Kind, 5>(linear, from, scale, output, to); break;
            default: multiply_tile<Kind, ROWS>(linear, from, scale, output, to);
            }
        }
}

// The same with rows that are converted first.
template <class Kind> void multiply_rows(const Linear &linear, const float *x, int64_t rows, float *y) {
    const int64_t units = linear.inputs / Kind::GROUP;
    thread_local std::vector<typename Kind::Unit> converted;
    thread_local std::vector<float> scales;
    grow(converted, rows * units);
    grow(scales, rows);
    for (int64_t row = 0; row < rows; ++row)
        scales[row] = Kind::convert(x + row * linear.inputs, linear.inputs, &converted[row * units]);
    multiply_units<Kind>(linear, converted.data(), scales.data(), rows, y);
}

void multiply(const Linear &linear, const float *x, int64_t rows, float *y) {
    switch (linear.precision) {
#ifdef __AVX512BF16__
    case BFLOAT16: return multiply_rows<BFloat16>(linear, x, rows, y);
#endif
#ifdef __AVX512VNNI__
    case INT8: return multiply_rows<Int8>(linear, x, rows, y);
#endif
    // It has no scales, and ignores them.
    default: return multiply_units<Float32>(linear, x, x, rows, y);
    }
}

} // namespace
