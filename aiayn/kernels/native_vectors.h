// Vectors of floats: as wide as the processor has them.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#ifdef __AVX512F__
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

namespace {

template <class Vector> Vector load(const void *from) {
    Vector found;
    std::memcpy(&found, from, sizeof found);
    return found;
}

// Makes room for so many.
template <class Value> void grow(std::vector<Value> &buffer, size_t count) {
    if (buffer.size() < count) buffer.resize(count);
}

Floats exponential(Floats x) {
    const Floats zero = {};
    x = x < -87.0f ? zero - 87.0f : x;
    x = x > 88.0f ? zero + 88.0f : x;
    const Ints whole = __builtin_convertvector(x * 1.44269504f + (x < 0 ? zero - 0.5f : zero + 0.5f), Ints);
    const Floats n = __builtin_convertvector(whole, Floats);
    const Floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Floats p = zero + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (Floats)((whole + 127) << 23);
}

// Which lane comes to each place when all move by half of them, by a quarter, and so on; last by none.
struct Rotations {
    int32_t lanes[5][LANES] = {};
    constexpr Rotations() {
        for (int turn = 0; turn < 5; ++turn)
            for (int lane = 0; lane < LANES; ++lane) lanes[turn][lane] = (lane + (LANES / 2 >> turn)) % LANES;
    }
};
constexpr Rotations ROTATIONS;

float sum_of(Floats x) {
#pragma GCC unroll 4
    for (int turn = 0; LANES >> turn > 1; ++turn) x += __builtin_shuffle(x, load<Ints>(ROTATIONS.lanes[turn]));
    return x[0];
}

float largest_of(Floats x) {
#pragma GCC unroll 4
    for (int turn = 0; LANES >> turn > 1; ++turn) {
        const Floats turned = __builtin_shuffle(x, load<Ints>(ROTATIONS.lanes[turn]));
        x = turned > x ? turned : x;
    }
    return x[0];
}

// How to join two vectors of sums, so that in the end LANES vectors are one vector with the sum of each: groups
// of lanes of both, side by side, with half as many lanes each. One picks the first halves, one the others.
struct Joins {
    int32_t halves[4][2][LANES] = {};
    constexpr Joins() {
        for (int turn = 0; LANES >> turn > 1; ++turn)
            for (int lane = 0; lane < LANES; ++lane) {
                const int group = LANES >> turn, half = group / 2;
                const int from = lane % group / half * LANES + lane / group * group + lane % half;
                halves[turn][0][lane] = from;
                halves[turn][1][lane] = from + half;
            }
    }
};
constexpr Joins JOINS;

// The sums of LANES vectors, which are changed.
Floats sums_of(Floats *x) {
#pragma GCC unroll 4
    for (int turn = 0; LANES >> turn > 1; ++turn)
#pragma GCC unroll 8
        for (int i = 0; i < LANES >> turn >> 1; ++i) {
            const Floats other = x[i + (LANES >> turn >> 1)];
            x[i] = __builtin_shuffle(x[i], other, load<Ints>(JOINS.halves[turn][0])) +
                   __builtin_shuffle(x[i], other, load<Ints>(JOINS.halves[turn][1]));
        }
    return x[0];
}

// Replaces x by exp(x - largest), and returns the sum.
float exponentiate(float *x, int64_t count, float largest) {
    const Floats zero = {};
    Floats total = zero;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Floats e = exponential(load<Floats>(x + i) - largest);
        std::memcpy(x + i, &e, sizeof e);
        total += e;
    }
    float rest[LANES];
    std::fill(rest, rest + LANES, -std::numeric_limits<float>::max());
    std::copy(x + i, x + count, rest);
    const Floats e = exponential(load<Floats>(rest) - largest);
    for (int lane = 0; i + lane < count; ++lane) total[lane] += x[i + lane] = e[lane];
    return sum_of(total);
}

} // namespace
