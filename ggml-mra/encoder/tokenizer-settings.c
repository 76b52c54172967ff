// Settings: the names of steps, checks, and what a file means that has none.
#include "tokenizer-impl.h"

#include <string.h>

static const char * const normalize_names[MRA_NORMALIZE_COUNT] = {
    [MRA_NORMALIZE_CLEAN] = "clean",
    [MRA_NORMALIZE_CJK] = "cjk",
    [MRA_NORMALIZE_NFC] = "nfc",
    [MRA_NORMALIZE_NFD] = "nfd",
    [MRA_NORMALIZE_NFKC] = "nfkc",
    [MRA_NORMALIZE_NFKD] = "nfkd",
    [MRA_NORMALIZE_STRIP_MN] = "strip_mn",
    [MRA_NORMALIZE_STRIP_M] = "strip_m",
    [MRA_NORMALIZE_LOWERCASE] = "lowercase",
    [MRA_NORMALIZE_STRIP_LEFT] = "strip_left",
    [MRA_NORMALIZE_STRIP_RIGHT] = "strip_right",
    [MRA_NORMALIZE_SPACES] = "spaces",
    [MRA_NORMALIZE_SPACES_TO_META] = "spaces_to_meta",
    [MRA_NORMALIZE_CHARSMAP] = "charsmap",
};

static const char * const split_names[MRA_SPLIT_COUNT] = {
    [MRA_SPLIT_WHITESPACE] = "whitespace",
    [MRA_SPLIT_WORDS] = "words",
    [MRA_SPLIT_BERT] = "bert",
    [MRA_SPLIT_PUNCTUATION] = "punctuation",
    [MRA_SPLIT_DIGITS] = "digits",
    [MRA_SPLIT_DIGIT_RUNS] = "digit_runs",
    [MRA_SPLIT_LLAMA3] = "llama3",
    [MRA_SPLIT_BYTES] = "bytes",
    [MRA_SPLIT_BYTES_PREFIX] = "bytes_prefix",
    [MRA_SPLIT_BYTE_WORDS] = "byte_words",
    [MRA_SPLIT_BYTE_WORDS_PREFIX] = "byte_words_prefix",
    [MRA_SPLIT_META_ALWAYS] = "meta_always",
    [MRA_SPLIT_META_FIRST] = "meta_first",
    [MRA_SPLIT_META_NEVER] = "meta_never",
    [MRA_SPLIT_META_LATER] = "meta_later",
    [MRA_SPLIT_META_ALWAYS_WHOLE] = "meta_always_whole",
    [MRA_SPLIT_META_FIRST_WHOLE] = "meta_first_whole",
    [MRA_SPLIT_META_NEVER_WHOLE] = "meta_never_whole",
};

static int find_name(const char * const * names, int n, const char * name) {
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) { return i; }
    }
    return -1;
}

int mra_normalize_find(const char * name) { return find_name(normalize_names, MRA_NORMALIZE_COUNT, name); }

int mra_split_find(const char * name) { return find_name(split_names, MRA_SPLIT_COUNT, name); }

// ---- settings from a file

static enum mra_status copy_steps(
    int32_t to[MRA_MAX_STEPS], const int32_t * from, size_t n, int n_kinds, const char * what, struct mra_error * err) {
    if (n > MRA_MAX_STEPS) {
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "%zu steps to %s, more than %d", n, what, MRA_MAX_STEPS);
    }
    for (size_t i = 0; i < n; i++) {
        if (from[i] < 0 || from[i] >= n_kinds) {
            return mra_fail(err, MRA_ERR_FORMAT, "step %d to %s", (int) from[i], what);
        }
        to[i] = from[i];
    }
    return MRA_OK;
}

static bool is_bytes(int32_t step) { return step >= MRA_SPLIT_BYTES && step <= MRA_SPLIT_BYTE_WORDS_PREFIX; }

static bool is_prefixed_bytes(int32_t step) {
    return step == MRA_SPLIT_BYTES_PREFIX || step == MRA_SPLIT_BYTE_WORDS_PREFIX;
}

static enum mra_status check_steps(const struct mra_tokenizer * tok, struct mra_error * err) {
    int n_charsmap = 0, n_changes = 0, n_bytes = 0;

    for (size_t i = 0; i < tok->n_normalize; i++) { n_charsmap += tok->normalize[i] == MRA_NORMALIZE_CHARSMAP; }
    if (n_charsmap > 1) { return mra_fail(err, MRA_ERR_UNSUPPORTED, "a charsmap is applied %d times", n_charsmap); }
    for (size_t i = 0; i < tok->n_split; i++) {
        n_bytes += is_bytes(tok->split[i]);
        n_changes += is_prefixed_bytes(tok->split[i]) || tok->split[i] >= MRA_SPLIT_META_ALWAYS;
    }
    if (n_changes > 1) { return mra_fail(err, MRA_ERR_UNSUPPORTED, "more than one step of splitting adds a prefix"); }
    const bool last = tok->n_split && is_bytes(tok->split[tok->n_split - 1]);
    if (tok->kind == MRA_VOCAB_BPE ? n_bytes != 1 || !last : n_bytes != 0) {
        return mra_fail(err, MRA_ERR_UNSUPPORTED, "bytes are the last step of splitting for BPE, and for BPE only");
    }
    return MRA_OK;
}

// Between a letter and a space most steps see no difference.
static bool can_cut(const struct mra_tokenizer * tok) {
    for (size_t i = 0; i < tok->n_normalize; i++) {
        if (tok->normalize[i] == MRA_NORMALIZE_STRIP_LEFT || tok->normalize[i] == MRA_NORMALIZE_STRIP_RIGHT) {
            return false;
        }
    }
    for (size_t i = 0; i < tok->n_added; i++) {
        if (tok->added[i].flags & MRA_ADDED_NORMALIZED) { return false; }
    }
    const int32_t last = tok->n_split ? tok->split[tok->n_split - 1] : -1;
    return last >= 0 && last != MRA_SPLIT_BYTES && last != MRA_SPLIT_BYTES_PREFIX && last < MRA_SPLIT_META_LATER;
}

static enum mra_status copy_template(const struct mra_tokenizer * tok, struct mra_parts * to,
    const struct mra_template * from, int n_texts, struct mra_error * err) {
    int seen[2] = { 0, 0 };

    if (from->n > MRA_MAX_TEMPLATE) { return mra_fail(err, MRA_ERR_UNSUPPORTED, "a template of %zu parts", from->n); }
    for (size_t i = 0; i < from->n; i++) {
        const int32_t id = from->ids[i];
        if (id < -n_texts || id >= tok->n_tokens || from->types[i] < 0 || from->types[i] > INT16_MAX) {
            return mra_fail(err, MRA_ERR_FORMAT, "part %zu of a template is token %d of type %d", i, (int) id,
                (int) from->types[i]);
        }
        if (id < 0) { seen[-1 - id]++; }
        to->ids[i] = id;
        to->types[i] = (int16_t) from->types[i];
    }
    to->n = from->n;
    if (seen[0] != 1 || seen[1] != n_texts - 1) {
        return mra_fail(err, MRA_ERR_FORMAT, "a template does not have each text once");
    }
    return MRA_OK;
}

static enum mra_status copy_added(
    struct mra_tokenizer * tok, const struct mra_added * added, size_t n, struct mra_error * err) {
    tok->added = malloc((n ? n : 1) * sizeof(*tok->added));
    if (!tok->added) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    for (size_t i = 0; i < n; i++) {
        const int32_t id = added[i].id;
        if (id < 0 || id >= tok->n_tokens || added[i].flags < 0 || added[i].flags > 63) {
            return mra_fail(
                err, MRA_ERR_FORMAT, "added token %zu has id %d and flags %d", i, (int) id, (int) added[i].flags);
        }
        if (tok->is_special[id]) { return mra_fail(err, MRA_ERR_FORMAT, "token %d is added twice", (int) id); }
        tok->is_special[id] = true;
        tok->is_no_piece[id] = tok->is_no_piece[id] || (added[i].flags & MRA_ADDED_ONLY);
        tok->added[tok->n_added++] = added[i];
    }
    return MRA_OK;
}

static enum mra_status take_settings(
    struct mra_tokenizer * tok, const struct mra_settings * s, struct mra_error * err) {
    enum mra_status st = copy_steps(
        tok->normalize, s->normalize, s->n_normalize, MRA_NORMALIZE_COUNT, "normalize", err);
    if (!st) { st = copy_steps(tok->split, s->split, s->n_split, MRA_SPLIT_COUNT, "split", err); }
    if (st) { return st; }
    tok->n_normalize = s->n_normalize;
    tok->n_split = s->n_split;
    if (s->unk >= tok->n_tokens || s->max_word_chars < 0) {
        return mra_fail(err, MRA_ERR_FORMAT, "unknown token %d, words of at most %lld characters", (int) s->unk,
            (long long) s->max_word_chars);
    }
    tok->unk = s->unk < 0 ? -1 : s->unk;
    tok->max_word_chars = s->max_word_chars;
    tok->trim_offsets = s->trim_offsets;
    tok->whole_words = s->whole_words;
    st = copy_added(tok, s->added, s->n_added, err);
    if (!st) { st = check_steps(tok, err); }
    if (!st) { st = copy_template(tok, &tok->single, &s->single, 1, err); }
    if (!st) { st = copy_template(tok, &tok->pair, &s->pair, 2, err); }
    tok->can_cut = can_cut(tok);
    return st;
}

// ---- settings that a file of another converter means

static size_t usual_normalize(const struct mra_vocab * v, int32_t * steps) {
    size_t n = 0;

    if (v->kind == MRA_VOCAB_UNIGRAM && v->n_charsmap) { steps[n++] = MRA_NORMALIZE_CHARSMAP; }
    if (v->kind == MRA_VOCAB_BPE && v->pre == MRA_BPE_MODERN_BERT) { steps[n++] = MRA_NORMALIZE_NFC; }
    if (v->kind != MRA_VOCAB_WORDPIECE) { return n; }
    steps[n++] = MRA_NORMALIZE_CLEAN;
    if (v->split_cjk) { steps[n++] = MRA_NORMALIZE_CJK; }
    if (v->strip_accents) {
        steps[n++] = MRA_NORMALIZE_NFD;
        steps[n++] = MRA_NORMALIZE_STRIP_MN;
    }
    if (v->lowercase) { steps[n++] = MRA_NORMALIZE_LOWERCASE; }
    return n;
}

static size_t usual_split(const struct mra_vocab * v, int32_t * steps) {
    size_t n = 0;

    if (v->kind == MRA_VOCAB_BPE && v->pre == MRA_BPE_LLAMA3) {
        steps[n++] = MRA_SPLIT_LLAMA3;
        steps[n++] = MRA_SPLIT_BYTES;
        return n;
    }
    if (v->kind != MRA_VOCAB_UNIGRAM) {
        steps[n++] = v->kind == MRA_VOCAB_BPE ? MRA_SPLIT_BYTE_WORDS : MRA_SPLIT_BERT;
        return n;
    }
    if (v->remove_extra_whitespaces) { steps[n++] = MRA_SPLIT_WHITESPACE; }
    steps[n++] = v->add_space_prefix  ? MRA_SPLIT_META_ALWAYS
        : v->remove_extra_whitespaces ? MRA_SPLIT_META_LATER
                                      : MRA_SPLIT_META_NEVER;
    return n;
}

// [first] A [last], and [first] A [last] ([last]) B [last]: twice in RoBERTa and XLM-R; BERT's second half has type 1
static void usual_templates(
    const struct mra_vocab * v, int32_t first, int32_t last, int32_t ids[2][8], int32_t types[2][8], size_t n[2]) {
    const bool bert = v->kind == MRA_VOCAB_WORDPIECE, once = bert || v->pre != MRA_BPE_ROBERTA;
    for (int pair = 0; pair < 2; pair++) {
        const int32_t parts[] = { first, MRA_TEMPLATE_A, last, pair && !once ? last : -9, pair ? MRA_TEMPLATE_B : -9,
            pair ? last : -9 };
        n[pair] = 0;
        for (int i = 0; i < 6; i++) {
            if (parts[i] == -9) { continue; }
            ids[pair][n[pair]] = parts[i];
            types[pair][n[pair]++] = bert && i > 3;
        }
    }
}

static enum mra_status usual_specials(
    const struct mra_vocab * v, int32_t * first, int32_t * last, struct mra_error * err) {
    const bool bert = v->kind == MRA_VOCAB_WORDPIECE;
    *first = bert ? (v->cls >= 0 ? v->cls : v->bos) : (v->bos >= 0 ? v->bos : v->cls);
    *last = bert ? (v->sep >= 0 ? v->sep : v->eos) : (v->eos >= 0 ? v->eos : v->sep);
    if (v->add_bos && *first < 0) {
        return mra_fail(err, MRA_ERR_FORMAT, "a first token is to be added, but the vocabulary names none");
    }
    if (v->add_eos && *last < 0) {
        return mra_fail(err, MRA_ERR_FORMAT, "a last token is to be added, but the vocabulary names none");
    }
    *first = v->add_bos ? *first : -9;
    *last = v->add_eos ? *last : -9;
    return MRA_OK;
}

// Tokens that are found in the text: control and user tokens, and those the file names for a purpose. Only the mask
// token, and not BERT's, takes the white space before it along.
static size_t usual_added(const struct mra_vocab * v, struct mra_added * added) {
    const int32_t ids[] = { v->bos, v->eos, v->unk, v->sep, v->pad, v->mask, v->cls };
    size_t n = 0;

    for (size_t i = 0; i < v->n_tokens; i++) {
        const int32_t type = v->types ? v->types[i] : MRA_TOKEN_NORMAL;
        bool is = type == MRA_TOKEN_UNKNOWN || type == MRA_TOKEN_CONTROL || type == MRA_TOKEN_USER;
        for (size_t k = 0; k < sizeof(ids) / sizeof(ids[0]); k++) { is = is || ids[k] == (int32_t) i; }
        const bool lstrip = v->kind != MRA_VOCAB_WORDPIECE && v->mask == (int32_t) i;
        if (is) { added[n++] = (struct mra_added) { (int32_t) i, lstrip ? MRA_ADDED_LSTRIP : 0 }; }
    }
    return n;
}

enum mra_status mra_settings_init(struct mra_tokenizer * tok, const struct mra_vocab * v, struct mra_error * err) {
    int32_t normalize[8], split[4], ids[2][8], types[2][8], first, last;
    size_t n[2];

    if (v->settings) { return take_settings(tok, v->settings, err); }
    enum mra_status st = usual_specials(v, &first, &last, err);
    if (st) { return st; }
    usual_templates(v, first, last, ids, types, n);
    struct mra_added * added = malloc(v->n_tokens * sizeof(*added));
    if (!added) { return mra_fail(err, MRA_ERR_MEMORY, "out of memory"); }
    const struct mra_settings usual = {
        .n_normalize = usual_normalize(v, normalize),
        .normalize = normalize,
        .n_split = usual_split(v, split),
        .split = split,
        .n_added = usual_added(v, added),
        .added = added,
        .single = { n[0], ids[0], types[0] },
        .pair = { n[1], ids[1], types[1] },
        .unk = v->unk,
        .max_word_chars = 100,
        .trim_offsets = v->kind == MRA_VOCAB_BPE,
        .whole_words = v->pre == MRA_BPE_LLAMA3,
    };
    st = take_settings(tok, &usual, err);
    for (size_t i = 0; i < usual.n_added && v->kind == MRA_VOCAB_WORDPIECE && !st; i++) {
        tok->is_no_piece[added[i].id] = true;
    }
    free(added);
    return st;
}
