// Unigram (SentencePiece, XLM-R): take the pieces whose scores have the largest sum:
//     best(j) = max over pieces s[i..j) of best(i) + score(piece)
#include "tokenizer-impl.h"

#define UNK_PENALTY 10.0 // below the lowest score, for a character no piece covers

struct node {
    double score;
    uint32_t from; // where the last piece starts
    int32_t id;    // of the last piece; -1: not reached
};

enum mra_status mra_unigram_init(struct mra_tokenizer * tok, const struct mra_vocab * vocab, struct mra_error * err) {
    double min = 0.0;
    bool any = false;

    if (tok->unk < 0) { return mra_fail(err, MRA_ERR_FORMAT, "a unigram vocabulary needs an unknown token"); }
    if (!vocab->scores) { return mra_fail(err, MRA_ERR_FORMAT, "a unigram vocabulary needs scores"); }
    tok->scores = malloc((size_t) tok->n_tokens * sizeof(*tok->scores));
    if (!tok->scores) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    for (int32_t i = 0; i < tok->n_tokens; i++) {
        const double * exact = vocab->settings ? vocab->settings->scores : NULL;
        tok->scores[i] = exact ? exact[i] : (double) vocab->scores[i];
        // converters pad vocabularies with unused tokens of absurd scores
        if (!(vocab->types && vocab->types[i] == MRA_TOKEN_UNUSED) && (!any || tok->scores[i] < min)) {
            min = tok->scores[i];
            any = true;
        }
    }
    tok->unk_score = min - UNK_PENALTY;
    return MRA_OK;
}

static void relax(struct node * to, double score, size_t from, int32_t id) {
    if (to->id < 0 || score > to->score) { *to = (struct node) { .score = score, .from = (uint32_t) from, .id = id }; }
}

static size_t char_len(char c) {
    const uint8_t b = (uint8_t) c;
    return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

// nodes: [n + 1], all of the word s[0..n)
static void search(const struct mra_tokenizer * tok, const char * s, size_t n, bool plain, struct node * nodes) {
    const struct mra_trie * trie = &tok->trie;

    for (size_t i = 0; i <= n; i++) { nodes[i].id = -1; }
    nodes[0].score = 0.0;
    for (size_t i = 0; i < n;) {
        const size_t len = char_len(s[i]);
        const double score = nodes[i].score;
        bool single = false; // a piece covers this character alone
        uint32_t node = 0;
        for (size_t j = i; j < n;) {
            node = mra_trie_step(trie, node, (uint8_t) s[j++]);
            if (!node) { break; }
            const int32_t id = trie->value[node];
            if (id < 0 || tok->is_no_piece[id] || (plain && tok->is_special[id])) { continue; }
            relax(&nodes[j], score + tok->scores[id], i, id);
            single = single || j - i == len;
        }
        if (!single) { relax(&nodes[i + len], score + tok->unk_score, i, tok->unk); }
        i += len;
    }
}

// Appends the best path; unknown characters in a row are one token.
bool mra_unigram_word(struct mra_work * w, const struct mra_view * v, size_t begin, size_t end) {
    struct mra_token_list * list = w->list;
    const size_t first = list->n, n = end - begin;

    if (!mra_reserve(&w->model[0], &w->cap_model[0], n + 1, sizeof(struct node))) { return false; }
    struct node * nodes = w->model[0];
    search(w->tok, v->s + begin, n, w->flags & MRA_TOKENIZE_PLAIN, nodes);
    for (size_t to = n; to > 0;) {
        const struct node * node = &nodes[to];
        const uint32_t start = mra_view_span(v, begin + node->from, 1).start;
        const uint32_t stop = v->spans ? v->spans[begin + to - 1].end : (uint32_t) (begin + to);
        if (node->id == w->tok->unk && list->n > first && list->data[list->n - 1].id == w->tok->unk) {
            list->data[list->n - 1].start = start;
        } else if (!mra_emit(list, node->id, start, stop)) {
            return false;
        }
        to = node->from;
    }
    for (size_t i = first, j = list->n - 1; i < j; i++, j--) {
        const struct mra_token t = list->data[i];
        list->data[i] = list->data[j];
        list->data[j] = t;
    }
    return true;
}
