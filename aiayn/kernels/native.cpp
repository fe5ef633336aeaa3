// Beam search and the network on one thread of a CPU: what `generate --compile` compiles.
// Here is what Python calls. What takes memory returns whether there was enough.

#include "native_search.h"

#include <exception>
#include <new>

namespace {

// Whether there was memory enough: no exception may leave for Python.
template <class Work> int32_t fits(const Work &work) {
    try {
        work();
        return 1;
    } catch (const std::exception &) { // bad_alloc, or length_error: more than there ever is
        return 0;
    }
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

int32_t linear(const Linear *linear, const float *x, int64_t rows, float *y) {
    return fits([&] { multiply(*linear, x, rows, y); });
}

Beam *new_sentence() { return new (std::nothrow) Beam; }
void delete_sentence(Beam *sentence) { delete sentence; }

// Begins sentences with these sources, whose ids stand one after the other, and so many hypotheses of each.
int32_t encode(const Model *model, int64_t slots, int64_t count, Beam **sentences, const int64_t *lengths, const int64_t *ids,
               const float *positions) {
    return fits([&] {
        std::vector<Sentence *> plain(sentences, sentences + count);
        encode_sources(*model, slots, count, plain.data(), lengths, ids, positions);
    });
}

// Extends each hypothesis by a token: tokens and origins are (sentences, slots), and y, the decoder's output,
// (sentences, slots, d_model).
int32_t decode(const Model *model, int64_t count, int64_t slots, Beam **sentences, const int64_t *tokens, const int64_t *origins,
               const float *positions, float *y) {
    return fits([&] {
        std::vector<Sentence *> plain(sentences, sentences + count);
        for (Sentence *sentence : plain) {
            sentence->tokens.assign(tokens, tokens + slots);
            sentence->origins.assign(origins, origins + slots);
            tokens += slots;
            origins += slots;
        }
        decode_tokens(*model, count, slots, plain.data(), positions, y);
    });
}

// Begins to search a sentence, whose output has at most so many tokens, EOS included, and begins with a prefix.
int32_t begin_search(const Search *search, Beam *sentence, int64_t limit, const int64_t *prefix, int64_t prefix_length) {
    return fits([&] { sentence->begin_search(*search, limit, prefix, prefix_length); });
}

// Extends the hypotheses of all sentences by a token, and says which sentences are finished.
int32_t advance(const Model *model, const Search *search, int64_t count, Beam **sentences, const float *positions, uint8_t *finished) {
    return fits([&] {
        extend_all(*model, *search, count, sentences, positions);
        for (int64_t i = 0; i < count; ++i) finished[i] = sentences[i]->is_finished(*search);
    });
}

// Writes the best hypotheses of a sentence, the completed ones before the others, and returns how many they are:
// score, number of tokens, whether it is complete, and the tokens, where each has room for `most`.
int64_t best_hypotheses(const Search *search, const Beam *sentence, double *scores, int64_t *lengths, uint8_t *complete, int64_t most,
                        int64_t *ids) {
    int64_t count = 0;
    const auto write = [&](double score, const std::vector<int64_t> &tokens, bool is_complete) {
        if (count == search->nbest) return;
        scores[count] = score;
        lengths[count] = tokens.size();
        complete[count] = is_complete;
        std::copy(tokens.begin(), tokens.end(), ids + count++ * most);
    };
    for (const Completed &each : sentence->completed) write(each.score, each.ids, true);
    for (int64_t slot = 0; slot < search->beam; ++slot)
        if (sentence->sums[slot] > LOG_ZERO)
            write(sentence->sums[slot] / search->penalty[sentence->ids[slot].size()], sentence->ids[slot], false);
    return count;
}

}
