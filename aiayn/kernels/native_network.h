// The encoder, and the decoder a step at a time.
//
// Every result depends on its own sentence alone, whatever is beside it: so it is batch-invariant.
// Rows are positions of sources, or the newest positions of hypotheses; there is no padding.
// kernels/native.py has the same structures.

#pragma once

#include "native_linear.h"

constexpr int64_t PAD = 0; // as in special_ids.py

struct Norm {
    const float *weight, *bias;
};

struct EncoderLayer {
    Linear look_around, join, inner, outer;
    Norm norms[2];
};

struct DecoderLayer {
    Linear look_back, join, query, memory, cross_join, inner, outer;
    Norm norms[3];
};

struct Model {
    int32_t encoder_depth, decoder_depth, d_model, heads, d_k, d_v;
    int32_t reach; // how many positions to either side self-attention sees
    float epsilon, source_scale, target_scale;
    const float *source_embedding, *target_embedding;
    const EncoderLayer *encoder;
    const DecoderLayer *decoder;
    Linear output;
};

namespace {

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

// 0, 1, 2, ...: at least `count` numbers.
const int32_t *counting(size_t count) {
    thread_local std::vector<int32_t> numbers;
    while (numbers.size() < count) numbers.push_back(numbers.size());
    return numbers.data();
}

// Keys and values that a query looks at: the listed ones of one head.
struct Cells {
    const float *keys, *values;
    int64_t stride; // from one to the next
    const int32_t *listed;
    int64_t count;
};

// Attention of one query: softmax(q K^T / sqrt(d_k)) V. WIDTH is that of both; LANES keys are looked at together.
template <int WIDTH> void attend_to(const float *q, const Cells &seen, float *out) {
    constexpr int VECTORS_OF_KEY = WIDTH / LANES;
    thread_local std::vector<Floats> weights;
    grow(weights, seen.count / LANES + 1);
    const float least = -std::numeric_limits<float>::max(), scale = 1 / std::sqrt((float)WIDTH);
    Floats query[VECTORS_OF_KEY], mixed[VECTORS_OF_KEY] = {}, most = Floats{} + least, total = {};
    std::memcpy(query, q, sizeof query);
    Floats *block = weights.data();
    for (int64_t first = 0; first < seen.count; first += LANES, ++block) {
        Floats dots[LANES];
        const int32_t count = std::min<int64_t>(LANES, seen.count - first);
        for (int32_t n = 0; n < count; ++n) {
            const float *key = seen.keys + seen.listed[first + n] * seen.stride;
            dots[n] = query[0] * load<Floats>(key);
#pragma GCC unroll 16
            for (int v = 1; v < VECTORS_OF_KEY; ++v) dots[n] += query[v] * load<Floats>(key + v * LANES);
        }
        for (int32_t n = count; n < LANES; ++n) dots[n] = Floats{};
        *block = load<Ints>(ROTATIONS.lanes[4]) < count ? sums_of(dots) * scale : Floats{} + least;
        most = *block > most ? *block : most;
    }
    const float largest = largest_of(most);
    for (Floats *each = weights.data(); each < block; ++each) total += *each = exponential(*each - largest);
    const float *weight = (const float *)weights.data();
    for (int64_t n = 0; n < seen.count; ++n) {
        const float *value = seen.values + seen.listed[n] * seen.stride;
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS_OF_KEY; ++v) mixed[v] += weight[n] * load<Floats>(value + v * LANES);
    }
    const float inverse = 1 / sum_of(total);
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS_OF_KEY; ++v) mixed[v] *= inverse;
    std::memcpy(out, mixed, sizeof mixed);
}

// The same for any widths.
void attend_slowly(const float *q, const Cells &seen, int64_t d_k, int64_t d_v, float *out) {
    thread_local std::vector<float> weights;
    grow(weights, seen.count);
    float largest = -std::numeric_limits<float>::max();
    for (int64_t n = 0; n < seen.count; ++n) {
        const float *key = seen.keys + seen.listed[n] * seen.stride;
        float dot = 0;
        for (int64_t i = 0; i < d_k; ++i) dot += q[i] * key[i];
        weights[n] = dot / std::sqrt((float)d_k);
        largest = std::max(largest, weights[n]);
    }
    const float inverse = 1 / exponentiate(weights.data(), seen.count, largest);
    std::fill(out, out + d_v, 0.0f);
    for (int64_t n = 0; n < seen.count; ++n)
        for (int64_t i = 0; i < d_v; ++i) out[i] += weights[n] * inverse * seen.values[seen.listed[n] * seen.stride + i];
}

void attend(const float *q, const Cells &seen, int64_t d_k, int64_t d_v, float *out) {
    if (d_k == 16 && d_v == 16) return attend_to<16>(q, seen, out);
    if (d_k == 32 && d_v == 32) return attend_to<32>(q, seen, out);
    if (d_k == 64 && d_v == 64) return attend_to<64>(q, seen, out);
    attend_slowly(q, seen, d_k, d_v, out);
}

// E[t] * scale + PE(pos): section 3.4. The vector of padding, which stands before the first token, is zero.
void embed(const float *table, float scale, int64_t token, const float *position, int64_t width, float *x) {
    if (token == PAD) scale = 0;
    for (int64_t i = 0; i < width; ++i) x[i] = table[token * width + i] * scale + position[i];
}

// y = LayerNorm(y + x W^T + b).
void add_product(const Model &model, const Linear &linear, const Norm &norm, const float *x, int64_t rows, float *y) {
    thread_local std::vector<float> product;
    grow(product, rows * model.d_model);
    multiply(linear, x, rows, product.data());
    add_and_norm(norm, model.epsilon, product.data(), rows, model.d_model, y);
}

// y = LayerNorm(y + FFN(y)).
template <class Layer> void feed_forward(const Model &model, const Layer &layer, const Norm &norm, int64_t rows, float *y) {
    thread_local std::vector<float> hidden;
    grow(hidden, rows * layer.inner.outputs);
    multiply(layer.inner, y, rows, hidden.data());
    add_product(model, layer.outer, norm, hidden.data(), rows, y);
}

// Hypotheses of a sentence share the cells of the tokens that they have in common; cells that are in nobody's
// past are used again. They come by the chunk, so that more of them move none.
constexpr int64_t CHUNK = 16;

// What is known of a sentence that is decoded. A cell is a key and a value, side by side.
struct Sentence {
    int64_t source_length = 0, length = 0, chunks = 0;
    std::vector<float> memory;                // (layers, heads, source length, cell)
    std::vector<float> cells;                 // (chunks, layers, heads, CHUNK, cell)
    std::vector<std::vector<int32_t>> pasts;  // of each hypothesis: where the cells of its tokens are
    std::vector<int64_t> tokens, origins;     // the newest token of each, and which one of the step before it continues

    void begin(const Model &model, int64_t tokens, int64_t hypotheses) {
        const size_t needed = model.decoder_depth * model.heads * tokens * (model.d_k + model.d_v);
        // What a much longer sentence took is given back.
        if (memory.size() > 4 * needed) memory = std::vector<float>();
        if (cells.size() > 4 * needed) cells = std::vector<float>();
        grow(memory, needed);
        source_length = tokens;
        length = chunks = 0;
        pasts.assign(hypotheses, {});
    }
};

// Lets each hypothesis of a sentence continue one of those before, with a cell of its own.
void extend_pasts(const Model &model, Sentence &sentence, int64_t slots) {
    thread_local std::vector<std::vector<int32_t>> before;
    thread_local std::vector<uint8_t> used;
    const int64_t chunk_cells = model.decoder_depth * model.heads * CHUNK;
    before = sentence.pasts;
    used.assign((sentence.chunks + 1 + slots / CHUNK) * CHUNK, 0);
    for (int64_t slot = 0; slot < slots; ++slot) {
        sentence.pasts[slot] = before[sentence.origins[slot]];
        for (const int32_t cell : sentence.pasts[slot]) used[cell / chunk_cells * CHUNK + cell % chunk_cells] = 1;
    }
    int64_t number = 0;
    for (int64_t slot = 0; slot < slots; ++slot, ++number) {
        while (used[number]) ++number;
        sentence.pasts[slot].push_back(number / CHUNK * chunk_cells + number % CHUNK);
    }
    sentence.chunks = std::max(sentence.chunks, (number - 1) / CHUNK + 1);
    grow(sentence.cells, sentence.chunks * chunk_cells * (model.d_k + model.d_v));
    if (!sentence.length++) std::fill(sentence.pasts.begin() + 1, sentence.pasts.end(), sentence.pasts[0]); // all begin alike
}

// Rows of some sentences, all of which go through all layers before the next ones: what they need stays in
// the processor's cache.
constexpr int64_t ROWS_AT_ONCE = 240;

struct Rows {
    std::vector<Sentence *> sentences;
    int64_t slots; // hypotheses of each sentence
    std::vector<float> y, projected, mixed;

    // Hypotheses of a sentence that has just begun are one.
    int64_t of(const Sentence &sentence) const { return sentence.length == 1 ? 1 : slots; }

    void reserve(const Model &model, int64_t rows) {
        grow(y, rows * model.d_model);
        grow(projected, rows * model.heads * (2 * model.d_k + model.d_v));
        grow(mixed, rows * model.heads * model.d_v);
    }
};

// Self-attention of the encoder: queries come one after the other, while the keys of a head are at hand.
void look_around(const Model &model, Rows &rows) {
    const int64_t d_k = model.d_k, d_v = model.d_v, qk = model.heads * d_k, qkv = 2 * qk + model.heads * d_v;
    int64_t begin = 0;
    for (const Sentence *sentence : rows.sentences) {
        const int64_t length = sentence->source_length;
        const float *q = &rows.projected[begin * qkv];
        for (int64_t head = 0; head < model.heads; ++head)
            for (int64_t i = 0; i < length; ++i) {
                const int64_t first = std::max<int64_t>(0, i - model.reach), last = std::min<int64_t>(length - 1, i + model.reach);
                const Cells seen = {q + qk + head * d_k, q + 2 * qk + head * d_v, qkv, counting(length) + first, last - first + 1};
                attend(q + i * qkv + head * d_k, seen, d_k, d_v, &rows.mixed[((begin + i) * model.heads + head) * d_v]);
            }
        begin += length;
    }
}

// Keys and values of the source for each layer of the decoder.
void keep_memory(const Model &model, int64_t count, Rows &rows) {
    const int64_t cell = model.d_k + model.d_v, qk = model.heads * model.d_k;
    for (int64_t number = 0; number < model.decoder_depth; ++number) {
        multiply(model.decoder[number].memory, rows.y.data(), count, rows.projected.data());
        const float *projected = rows.projected.data();
        for (Sentence *sentence : rows.sentences)
            for (int64_t s = 0; s < sentence->source_length; ++s, projected += model.heads * cell)
                for (int64_t head = 0; head < model.heads; ++head) {
                    float *to = &sentence->memory[((number * model.heads + head) * sentence->source_length + s) * cell];
                    to = std::copy_n(projected + head * model.d_k, model.d_k, to);
                    std::copy_n(projected + qk + head * model.d_v, model.d_v, to);
                }
    }
}

void encode_rows(const Model &model, int64_t count, const int64_t *ids, const float *positions, Rows &rows) {
    float *x = rows.y.data();
    for (Sentence *sentence : rows.sentences)
        for (int64_t s = 0; s < sentence->source_length; ++s, x += model.d_model)
            embed(model.source_embedding, model.source_scale, *ids++, positions + s * model.d_model, model.d_model, x);
    for (int64_t number = 0; number < model.encoder_depth; ++number) {
        const EncoderLayer &layer = model.encoder[number];
        multiply(layer.look_around, rows.y.data(), count, rows.projected.data());
        look_around(model, rows);
        add_product(model, layer.join, layer.norms[0], rows.mixed.data(), count, rows.y.data());
        feed_forward(model, layer, layer.norms[1], count, rows.y.data());
    }
    keep_memory(model, count, rows);
}

// Self-attention of the decoder: keys and values of the newest tokens are kept, and looked at with those before.
void look_back(const Model &model, int64_t layer, Rows &rows) {
    const int64_t d_k = model.d_k, d_v = model.d_v, qk = model.heads * d_k, qkv = 2 * qk + model.heads * d_v;
    int64_t row = 0;
    for (Sentence *sentence : rows.sentences) {
        const int64_t first = std::max<int64_t>(0, sentence->length - 1 - model.reach);
        for (int64_t slot = 0; slot < rows.of(*sentence); ++slot, ++row) {
            const std::vector<int32_t> &past = sentence->pasts[slot];
            const float *q = &rows.projected[row * qkv];
            for (int64_t head = 0; head < model.heads; ++head) {
                float *keys = &sentence->cells[(layer * model.heads + head) * CHUNK * (d_k + d_v)];
                float *own = std::copy_n(q + qk + head * d_k, d_k, keys + past.back() * (d_k + d_v));
                std::copy_n(q + 2 * qk + head * d_v, d_v, own);
                const Cells seen = {keys, keys + d_k, d_k + d_v, &past[first], sentence->length - first};
                attend(q + head * d_k, seen, d_k, d_v, &rows.mixed[(row * model.heads + head) * d_v]);
            }
        }
    }
}

// Attention to the encoder: hypotheses come one after the other, while the keys of a head are at hand.
void look_at_source(const Model &model, int64_t layer, Rows &rows) {
    const int64_t d_k = model.d_k, d_v = model.d_v;
    int64_t row = 0;
    for (const Sentence *sentence : rows.sentences) {
        const int64_t length = sentence->source_length;
        const float *keys = &sentence->memory[layer * model.heads * length * (d_k + d_v)];
        for (int64_t head = 0; head < model.heads; ++head, keys += length * (d_k + d_v))
            for (int64_t slot = 0; slot < rows.of(*sentence); ++slot) {
                const int64_t q = (row + slot) * model.heads + head;
                const Cells seen = {keys, keys + d_k, d_k + d_v, counting(length), length};
                attend(&rows.projected[q * d_k], seen, d_k, d_v, &rows.mixed[q * d_v]);
            }
        row += rows.of(*sentence);
    }
}

// The vectors of the newest tokens become the decoder's output.
void decode_rows(const Model &model, int64_t count, Rows &rows) {
    float *y = rows.y.data();
    for (int64_t number = 0; number < model.decoder_depth; ++number) {
        const DecoderLayer &layer = model.decoder[number];
        multiply(layer.look_back, y, count, rows.projected.data());
        look_back(model, number, rows);
        add_product(model, layer.join, layer.norms[0], rows.mixed.data(), count, y);
        multiply(layer.query, y, count, rows.projected.data());
        look_at_source(model, number, rows);
        add_product(model, layer.cross_join, layer.norms[1], rows.mixed.data(), count, y);
        feed_forward(model, layer, layer.norms[2], count, y);
    }
}

// Begins sentences with these sources, whose ids stand one after the other, and so many hypotheses of each.
void encode_sources(const Model &model, int64_t slots, int64_t count, Sentence **sentences, const int64_t *lengths,
                    const int64_t *ids, const float *positions) {
    thread_local Rows rows;
    for (int64_t next = 0; next < count;) {
        int64_t taken = 0;
        rows.sentences.clear();
        do {
            sentences[next]->begin(model, lengths[next], slots);
            rows.sentences.push_back(sentences[next]);
            taken += lengths[next++];
        } while (next < count && taken + lengths[next] <= ROWS_AT_ONCE);
        rows.reserve(model, taken);
        encode_rows(model, taken, ids, positions, rows);
        ids += taken;
    }
}

// Reads the newest tokens; y is the decoder's output (sentences, slots, d_model).
void decode_tokens(const Model &model, int64_t count, int64_t slots, Sentence **sentences, const float *positions, float *y) {
    thread_local Rows rows;
    const int64_t at_once = std::max<int64_t>(1, ROWS_AT_ONCE / slots), width = model.d_model;
    for (int64_t first = 0; first < count; first += at_once) {
        const int64_t last = std::min(count, first + at_once);
        rows.sentences.assign(sentences + first, sentences + last);
        rows.slots = slots;
        rows.reserve(model, (last - first) * slots);
        float *x = rows.y.data();
        for (Sentence *sentence : rows.sentences) {
            extend_pasts(model, *sentence, slots);
            const float *position = positions + (sentence->length - 1) * width;
            for (int64_t slot = 0; slot < rows.of(*sentence); ++slot, x += width)
                embed(model.target_embedding, model.target_scale, sentence->tokens[slot], position, width, x);
        }
        decode_rows(model, (x - rows.y.data()) / width, rows);
        x = rows.y.data();
        for (const Sentence *sentence : rows.sentences) {
            for (int64_t slot = 0; slot < slots; ++slot, y += width) std::copy_n(x + slot % rows.of(*sentence) * width, width, y);
            x += rows.of(*sentence) * width;
        }
    }
}

} // namespace
