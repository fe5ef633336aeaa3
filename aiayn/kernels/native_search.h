// Beam search over the network: what generation/search.py does where no rule restricts it.

#pragma once

#include "native_network.h"

constexpr int64_t EOS = 1; // as in special_ids.py

// kernels/native.py has the same structure.
struct Search {
    int64_t beam, candidates, nbest;
    const double *penalty; // lp(Y) by length
};

namespace {

constexpr int64_t LOGITS_AT_ONCE = 36;
constexpr float LOG_ZERO = -std::numeric_limits<float>::infinity();

// Tokens that EOS has followed.
struct Completed {
    double score; // log P / lp(Y)
    std::vector<int64_t> ids;
};

struct Candidate {
    float sum; // log P
    int64_t slot, token;
};

// A sentence and its hypotheses.
struct Beam : Sentence {
    int64_t limit = 0;
    std::vector<int64_t> prefix;
    std::vector<float> sums;               // log P of the growing ones, best first; -inf where there is none
    std::vector<std::vector<int64_t>> ids; // their tokens
    std::vector<Completed> completed;      // best first
    std::vector<Candidate> candidates;     // the best extensions of this step, best first

    void begin_search(const Search &search, int64_t most, const int64_t *first, int64_t count) {
        limit = most;
        prefix.assign(first, first + count);
        sums.assign(search.beam, LOG_ZERO);
        sums[0] = 0; // at first there is one hypothesis, the empty one
        ids.assign(search.beam, {});
        tokens.assign(search.beam, PAD);
        origins.assign(search.beam, 0);
        completed.clear();
    }

    // The token that has to come next; -1: any may.
    int64_t forced() const { return ids[0].size() < prefix.size() ? prefix[ids[0].size()] : -1; }

    // Completes what ends among the candidates, and extends the best others.
    void keep_best(const Search &search) {
        thread_local std::vector<std::vector<int64_t>> before;
        std::swap(before, ids);
        ids.resize(search.beam);
        int64_t kept = 0;
        for (const Candidate &candidate : candidates) {
            if (candidate.token == EOS) complete(search, candidate.sum, before[candidate.slot]);
            else if (kept < search.beam) extend(kept++, candidate, before[candidate.slot]);
        }
        while (kept < search.beam) extend(kept++, {LOG_ZERO, 0, PAD}, before[0]);
    }

    void extend(int64_t slot, const Candidate &by, const std::vector<int64_t> &before) {
        sums[slot] = by.sum;
        tokens[slot] = by.token;
        origins[slot] = by.slot;
        ids[slot].assign(before.begin(), before.end());
        ids[slot].push_back(by.token);
    }

    void complete(const Search &search, float sum, const std::vector<int64_t> &tokens_before) {
        const double score = sum / search.penalty[tokens_before.size() + 1];
        const auto worse = [&](const Completed &other) { return other.score < score; };
        completed.insert(std::find_if(completed.begin(), completed.end(), worse), {score, tokens_before});
        if (completed.size() > (size_t)search.beam) completed.pop_back();
    }

    // Whether no continuation can be wanted any more.
    bool is_finished(const Search &search) const {
        if ((int64_t)ids[0].size() >= limit) return true;
        double to_beat = LOG_ZERO;
        if (completed.size() >= (size_t)search.nbest)
            to_beat = search.beam == 1 ? -LOG_ZERO : completed[search.nbest - 1].score;
        return sums[0] / search.penalty[limit] <= to_beat;
    }
};

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

// Adds what a hypothesis may become to the candidates of its sentence, if it is among the `count` best.
void consider(Beam &beam, int64_t slot, const float *logits, int64_t words, size_t count) {
    thread_local std::vector<float> peaks;
    peaks.resize((words + PANEL - 1) / PANEL);
    for (size_t block = 0; block < peaks.size(); ++block)
        peaks[block] = largest_in(logits + block * PANEL, std::min<int64_t>(PANEL, words - block * PANEL));
    const float normalizer = log_sum_exp(logits, words, *std::max_element(peaks.begin(), peaks.end()));
    const int64_t forced = beam.forced(), first_word = forced < 0 ? PAD + 1 : forced, last_word = forced < 0 ? words - 1 : forced;
    std::vector<Candidate> &best = beam.candidates;
    const auto is_wanted = [&](float sum) { return sum > (best.size() < count ? LOG_ZERO : best.back().sum); };
    for (size_t block = 0; block < peaks.size(); ++block) {
        if (!is_wanted(peaks[block] - normalizer + beam.sums[slot])) continue;
        const int64_t last = std::min<int64_t>(last_word, (block + 1) * PANEL - 1);
        for (int64_t word = std::max<int64_t>(first_word, block * PANEL); word <= last; ++word) {
            const float sum = logits[word] - normalizer + beam.sums[slot];
            if (!is_wanted(sum)) continue;
            if (best.size() == count) best.pop_back();
            const auto worse = [&](const Candidate &other) { return other.sum < sum; };
            best.insert(std::find_if(best.begin(), best.end(), worse), {sum, slot, word});
        }
    }
}

// Extends the hypotheses of all sentences by a token.
void extend_all(const Model &model, const Search &search, int64_t count, Beam **beams, const float *positions) {
    struct Row {
        Beam *beam;
        int64_t slot;
        const float *state;
    };
    thread_local std::vector<Sentence *> sentences;
    thread_local std::vector<Row> growing;
    thread_local std::vector<float> y, states, logits;
    const int64_t words = model.output.outputs, width = model.d_model;
    sentences.assign(beams, beams + count);
    grow(y, count * search.beam * width);
    decode_tokens(model, count, search.beam, sentences.data(), positions, y.data());
    growing.clear();
    const float *state = y.data();
    for (Beam **beam = beams; beam < beams + count; ++beam) {
        (*beam)->candidates.clear();
        for (int64_t slot = 0; slot < search.beam; ++slot, state += width)
            if ((*beam)->sums[slot] != LOG_ZERO) growing.push_back({*beam, slot, state});
    }
    grow(states, LOGITS_AT_ONCE * width);
    grow(logits, LOGITS_AT_ONCE * words);
    for (size_t first = 0; first < growing.size(); first += LOGITS_AT_ONCE) {
        const int64_t rows = std::min<int64_t>(LOGITS_AT_ONCE, growing.size() - first);
        const Row *row = &growing[first];
        for (int64_t i = 0; i < rows; ++i) std::copy_n(row[i].state, width, &states[i * width]);
        multiply(model.output, states.data(), rows, logits.data());
        for (int64_t i = 0; i < rows; ++i) consider(*row[i].beam, row[i].slot, &logits[i * words], words, search.candidates);
    }
    for (Beam **beam = beams; beam < beams + count; ++beam) (*beam)->keep_best(search);
}

} // namespace
