// A decoding step in one call, on one thread of a CPU: what `generate --compile` compiles.
//
// Every result depends on its own row alone, whatever rows are beside it: so it is
// batch-invariant. kernels/native.py has the same structures.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>
#if defined(__AVX512VNNI__) || defined(__AVX512BF16__)
#include <immintrin.h>
#endif

// Sums of a tile of ROWS x VECTORS stay in registers.
#ifdef __AVX512F__
constexpr int LANES = 16, VECTORS = 4, ROWS = 6;
#else
constexpr int LANES = 8, VECTORS = 2, ROWS = 4;
#endif
constexpr int PANEL = LANES * VECTORS;

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

enum Precision { FLOAT32, BFLOAT16, INT8 };
enum Activation { NONE, RELU, SWISH };

struct Linear {
    int32_t precision, inputs, outputs, activation;
    const void *panels;    // weights of PANEL outputs side by side, input by input
    const float *scales;   // of 8-bit weights
    const int32_t *shifts; // 128 times their sums, since inputs are stored without a sign
    const float *bias;     // of all panels
};

struct Norm {
    const float *weight, *bias;
};

struct Layer {
    Linear look_back, join, query, cross_join, inner, outer;
    Norm norms[3];
};

struct Decoder {
    int32_t layer_count, d_model, heads, d_k, d_v;
    float epsilon;
    const Layer *layers;
    Linear output;
};

// Places begin at the first of this step; a cache is (layers, places, heads, columns, width).
struct Step {
    int64_t sentences, slots, places, room, columns, source_room;
    float *keys, *values, *source_keys, *source_values;
    const int64_t *new_columns; // (sentences, slots)
    const uint8_t *seen;        // (sentences, slots, columns)
    const int64_t *source_lengths;
    float *y, *logits; // (sentences * slots, d_model or words)
};

namespace {

template <class Vector> Vector load(const void *from) {
    Vector found;
    std::memcpy(&found, from, sizeof found);
    return found;
}

Floats exponential(Floats x) {
    const Floats zero = {};
    x = x < -87.0f ? zero - 87.0f : x;
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

// Which lane comes to each place when all move by half of them, by a quarter, and so on.
struct Rotations {
    int32_t lanes[4][LANES] = {};
    constexpr Rotations() {
        for (int turn = 0; turn < 4; ++turn)
            for (int lane = 0; lane < LANES; ++lane) lanes[turn][lane] = (lane + (LANES / 2 >> turn)) % LANES;
    }
};
constexpr Rotations ROTATIONS;

float sum_of(Floats x) {
#pragma GCC unroll 4
    for (int turn = 0; LANES >> turn > 1; ++turn) x += __builtin_shuffle(x, load<Ints>(ROTATIONS.lanes[turn]));
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
    converted.resize(rows * units);
    scales.resize(rows);
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
    // It has no scales, and reads none.
    default: return multiply_units<Float32>(linear, x, x, rows, y);
    }
}

// y = LayerNorm(y + x), row by row.
void add_and_norm(const Norm &norm, float epsilon, const float *x, int64_t rows, int64_t width, float *y) {
    for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
        float mean = 0, square = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < width; ++i) mean += y[i] += x[i];
        mean /= width;
#pragma omp simd reduction(+ : square)
        for (int64_t i = 0; i < width; ++i) square += (y[i] - mean) * (y[i] - mean);
        const float inverse = 1 / std::sqrt(square / width + epsilon);
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) y[i] = (y[i] - mean) * inverse * norm.weight[i] + norm.bias[i];
    }
}

// Attention of one query to the columns that are listed: softmax(q K^T / sqrt(d_k)) V.
// VECTORS_K and VECTORS_V are what d_k and d_v take.
template <int VECTORS_K, int VECTORS_V>
void attend_to(const float *q, const float *keys, const float *values, const std::vector<int32_t> &listed, float *out) {
    thread_local std::vector<float> weights;
    weights.resize(listed.size());
    const float scale = 1 / std::sqrt((float)(VECTORS_K * LANES));
    float largest = -std::numeric_limits<float>::max();
    Floats query[VECTORS_K], mixed[VECTORS_V] = {};
    std::memcpy(query, q, sizeof query);
    for (size_t n = 0; n < listed.size(); ++n) {
        Floats dot = {};
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS_K; ++v) dot += query[v] * load<Floats>(keys + (listed[n] * VECTORS_K + v) * LANES);
        weights[n] = sum_of(dot) * scale;
        largest = std::max(largest, weights[n]);
    }
    const float inverse = 1 / exponentiate(weights.data(), listed.size(), largest);
    for (size_t n = 0; n < listed.size(); ++n)
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS_V; ++v) mixed[v] += weights[n] * load<Floats>(values + (listed[n] * VECTORS_V + v) * LANES);
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS_V; ++v) mixed[v] *= inverse;
    std::memcpy(out, mixed, sizeof mixed);
}

// The same for any widths.
void attend_slowly(const float *q, const float *keys, const float *values, const std::vector<int32_t> &listed,
                   int64_t d_k, int64_t d_v, float *out) {
    thread_local std::vector<float> weights;
    weights.resize(listed.size());
    float largest = -std::numeric_limits<float>::max();
    for (size_t n = 0; n < listed.size(); ++n) {
        const float *key = keys + listed[n] * d_k;
        float dot = 0;
        for (int64_t i = 0; i < d_k; ++i) dot += q[i] * key[i];
        weights[n] = dot / std::sqrt((float)d_k);
        largest = std::max(largest, weights[n]);
    }
    const float inverse = 1 / exponentiate(weights.data(), listed.size(), largest);
    std::fill(out, out + d_v, 0.0f);
    for (size_t n = 0; n < listed.size(); ++n)
        for (int64_t i = 0; i < d_v; ++i) out[i] += weights[n] * inverse * values[listed[n] * d_v + i];
}

void attend(const float *q, const float *keys, const float *values, const std::vector<int32_t> &listed,
            int64_t d_k, int64_t d_v, float *out) {
    if (d_k == 32 && d_v == 32) return attend_to<32 / LANES, 32 / LANES>(q, keys, values, listed, out);
    if (d_k == 64 && d_v == 64) return attend_to<64 / LANES, 64 / LANES>(q, keys, values, listed, out);
    attend_slowly(q, keys, values, listed, d_k, d_v, out);
}

// log of the sum of exp(x), where `largest` is the largest.
float log_sum_exp(const float *x, int64_t count, float largest) {
    Floats total = {};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) total += exponential(load<Floats>(x + i) - largest);
    float rest = 0;
    for (; i < count; ++i) rest += std::exp(x[i] - largest);
    return largest + std::log(sum_of(total) + rest);
}

float largest_in(const float *x, int64_t count) {
    float most = x[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 1; i < count; ++i) most = std::max(most, x[i]);
    return most;
}

} // namespace

extern "C" {

int32_t panel_width() { return PANEL; }

int32_t supports(int32_t precision) {
#ifdef __AVX512BF16__
    if (precision == BFLOAT16) return 1;
#endif
#ifdef __AVX512VNNI__
    if (precision == INT8) return 1;
#endif
    return precision == FLOAT32;
}

void linear(const Linear *linear, const float *x, int64_t rows, float *y) { multiply(*linear, x, rows, y); }

// The `count` largest sums of log P of a word, from `first_word` on, and what its row has so far; best first.
// Beside them are their places, counted through all rows of a sentence.
void largest_sums(const float *logits, const float *so_far, int64_t sentences, int64_t slots, int64_t words,
                  int64_t first_word, int64_t count, float *best, int64_t *places) {
    const float none = -std::numeric_limits<float>::infinity();
    std::vector<float> peaks((words + PANEL - 1) / PANEL);
    std::fill(best, best + sentences * count, none);
    std::fill(places, places + sentences * count, 0);
    for (int64_t row = 0; row < sentences * slots; ++row) {
        if (row && row % slots == 0) best += count, places += count;
        if (so_far[row] == none) continue;
        const float *x = logits + row * words;
        for (size_t block = 0; block < peaks.size(); ++block)
            peaks[block] = largest_in(x + block * PANEL, std::min<int64_t>(PANEL, words - block * PANEL));
        const float normalizer = log_sum_exp(x, words, *std::max_element(peaks.begin(), peaks.end()));
        for (size_t block = 0; block < peaks.size(); ++block) {
            if (!(peaks[block] - normalizer + so_far[row] > best[count - 1])) continue;
            const int64_t end = std::min<int64_t>(words, (block + 1) * PANEL);
            for (int64_t word = std::max<int64_t>(first_word, block * PANEL); word < end; ++word) {
                const float sum = x[word] - normalizer + so_far[row];
                if (!(sum > best[count - 1])) continue;
                int64_t rank = count - 1;
                for (; rank && sum > best[rank - 1]; --rank) best[rank] = best[rank - 1], places[rank] = places[rank - 1];
                best[rank] = sum;
                places[rank] = row % slots * words + word;
            }
        }
    }
}

void decoder_step(const Decoder *decoder, const Step *step) {
    const int64_t rows = step->sentences * step->slots, heads = decoder->heads;
    const int64_t d_model = decoder->d_model, d_k = decoder->d_k, d_v = decoder->d_v;
    const int64_t qk = heads * d_k, qkv = 2 * qk + heads * d_v;
    thread_local std::vector<float> projected, mixed, joined;
    thread_local std::vector<std::vector<int32_t>> pasts, sources;
    projected.resize(rows * std::max<int64_t>(qkv, decoder->layers[0].inner.outputs));
    mixed.resize(rows * heads * d_v);
    joined.resize(rows * d_model);
    pasts.resize(rows);
    sources.resize(step->sentences);
    for (int64_t row = 0; row < rows; ++row) {
        pasts[row].clear();
        for (int64_t column = 0; column < step->columns; ++column)
            if (step->seen[row * step->columns + column]) pasts[row].push_back(column);
    }
    for (int64_t sentence = 0; sentence < step->sentences; ++sentence) {
        sources[sentence].resize(step->source_lengths[sentence]);
        for (int64_t s = 0; s < step->source_lengths[sentence]; ++s) sources[sentence][s] = s;
    }
    float *y = step->y;
    for (int64_t number = 0; number < decoder->layer_count; ++number) {
        const Layer &layer = decoder->layers[number];
        const int64_t first = number * step->places * heads;
        multiply(layer.look_back, y, rows, projected.data());
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t head = 0; head < heads; ++head) {
                const int64_t cell = (first + row / step->slots * heads + head) * step->room + step->new_columns[row];
                const float *key = &projected[row * qkv + qk + head * d_k], *value = &projected[row * qkv + 2 * qk + head * d_v];
                std::copy(key, key + d_k, step->keys + cell * d_k);
                std::copy(value, value + d_v, step->values + cell * d_v);
            }
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t head = 0; head < heads; ++head) {
                const int64_t cell = (first + row / step->slots * heads + head) * step->room;
                attend(&projected[row * qkv + head * d_k], step->keys + cell * d_k, step->values + cell * d_v, pasts[row], d_k, d_v,
                       &mixed[(row * heads + head) * d_v]);
            }
        multiply(layer.join, mixed.data(), rows, joined.data());
        add_and_norm(layer.norms[0], decoder->epsilon, joined.data(), rows, d_model, y);
        multiply(layer.query, y, rows, projected.data());
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t head = 0; head < heads; ++head) {
                const int64_t cell = (first + row / step->slots * heads + head) * step->source_room;
                attend(&projected[row * qk + head * d_k], step->source_keys + cell * d_k, step->source_values + cell * d_v,
                       sources[row / step->slots], d_k, d_v, &mixed[(row * heads + head) * d_v]);
            }
        multiply(layer.cross_join, mixed.data(), rows, joined.data());
        add_and_norm(layer.norms[1], decoder->epsilon, joined.data(), rows, d_model, y);
        multiply(layer.inner, y, rows, projected.data());
        multiply(layer.outer, projected.data(), rows, joined.data());
        add_and_norm(layer.norms[2], decoder->epsilon, joined.data(), rows, d_model, y);
    }
    multiply(decoder->output, y, rows, step->logits);
}

}
