#include "tokenizer-file.h"

#include <stdlib.h>
#include <string.h>

static void die(const char * what, const char * detail) {
    fprintf(stderr, "%s: %s\n", what, detail);
    exit(2);
}

static void * grow(void * p, size_t * cap, size_t n, size_t size) {
    if (n <= *cap) { return p; }
    *cap = 2 * n + 64;
    p = realloc(p, *cap * size);
    if (!p) { die("memory", "out of"); }
    return p;
}

char * file_read(const char * path, size_t * n) {
    FILE * f = fopen(path, "rb");
    char * buf = NULL;
    size_t cap = 0;

    *n = 0;
    if (!f) { die(path, "cannot be opened"); }
    do {
        buf = grow(buf, &cap, *n + 65536, 1);
        *n += fread(buf + *n, 1, 65535, f);
    } while (!feof(f) && !ferror(f));
    fclose(f);
    buf[*n] = 0;
    return buf;
}

size_t unescape(char * s) {
    char * out = s;
    char * p = s;

    while (*p) {
        if (p[0] == '\\' && p[1] == 'x' && p[2] && p[3]) {
            const char hex[3] = { p[2], p[3], 0 };
            *out++ = (char) strtol(hex, NULL, 16);
            p += 4;
        } else {
            *out++ = *p++;
        }
    }
    *out = 0;
    return (size_t) (out - s);
}

int next_line(char ** p, char ** fields, int max_fields) {
    char * s = *p;
    int n = 0;

    if (!*s) { return -1; }
    char * end = s + strcspn(s, "\n");
    *p = end + (*end == '\n');
    *end = 0;
    while (*s && n < max_fields) {
        fields[n++] = s;
        s += strcspn(s, "\t");
        if (*s) {
            *s++ = 0;
            if (!*s && n < max_fields) { fields[n++] = s; }
        }
    }
    return n;
}

static struct mra_str copy_str(char * s) {
    const size_t n = unescape(s);
    char * p = malloc(n + 1);

    if (!p) { die("memory", "out of"); }
    memcpy(p, s, n + 1);
    return (struct mra_str) { p, n };
}

static void set_flag(struct mra_vocab * v, const char * name) {
    const struct {
        const char * name;
        bool * flag;
    } flags[] = {
        { "add_bos", &v->add_bos },
        { "add_eos", &v->add_eos },
        { "add_space_prefix", &v->add_space_prefix },
        { "remove_extra_whitespaces", &v->remove_extra_whitespaces },
        { "lowercase", &v->lowercase },
        { "strip_accents", &v->strip_accents },
        { "split_cjk", &v->split_cjk },
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (strcmp(flags[i].name, name) == 0) {
            *flags[i].flag = true;
            return;
        }
    }
    die("unknown flag", name);
}

static void set_id(struct mra_vocab * v, const char * name, int32_t id) {
    const struct {
        const char * name;
        int32_t * id;
    } ids[] = {
        { "bos", &v->bos },
        { "eos", &v->eos },
        { "unk", &v->unk },
        { "sep", &v->sep },
        { "pad", &v->pad },
        { "mask", &v->mask },
        { "cls", &v->cls },
    };
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        if (strcmp(ids[i].name, name) == 0) {
            *ids[i].id = id;
            return;
        }
    }
    die("unknown id", name);
}

static void set_kind(struct mra_vocab * v, const char * name) {
    *v = mra_vocab_init(strcmp(name, "bpe") == 0 ? MRA_VOCAB_BPE
            : strcmp(name, "wordpiece") == 0     ? MRA_VOCAB_WORDPIECE
                                                 : MRA_VOCAB_UNIGRAM);
}

static void add_token(struct vocab_file * f, char ** field) {
    const size_t i = f->vocab.n_tokens++;
    size_t caps = f->cap_tokens;

    f->tokens = grow(f->tokens, &f->cap_tokens, i + 1, sizeof(*f->tokens));
    f->scores = realloc(f->scores, f->cap_tokens * sizeof(*f->scores));
    f->types = grow(f->types, &caps, i + 1, sizeof(*f->types));
    f->types[i] = atoi(field[1]);
    f->scores[i] = strtof(field[2], NULL);
    f->tokens[i] = copy_str(field[3]);
}

static void add_charsmap(struct vocab_file * f, char * s) {
    const size_t n = unescape(s);

    f->charsmap = grow(f->charsmap, &f->cap_charsmap, f->vocab.n_charsmap + n, 1);
    memcpy(f->charsmap + f->vocab.n_charsmap, s, n);
    f->vocab.n_charsmap += n;
}

void vocab_file_read(struct vocab_file * f, const char * path) {
    size_t n;
    char * text = file_read(path, &n);
    char * p = text;
    char * field[5];
    int n_fields;

    memset(f, 0, sizeof(*f));
    f->vocab = mra_vocab_init(MRA_VOCAB_BPE);
    while ((n_fields = next_line(&p, field, 5)) >= 0) {
        if (n_fields == 2 && strcmp(field[0], "kind") == 0) {
            set_kind(&f->vocab, field[1]);
        } else if (n_fields == 2 && strcmp(field[0], "flag") == 0) {
            set_flag(&f->vocab, field[1]);
        } else if (n_fields == 3 && strcmp(field[0], "id") == 0) {
            set_id(&f->vocab, field[1], atoi(field[2]));
        } else if (n_fields == 4 && strcmp(field[0], "token") == 0) {
            add_token(f, field);
        } else if (n_fields == 2 && strcmp(field[0], "merge") == 0) {
            f->merges = grow(f->merges, &f->cap_merges, f->vocab.n_merges + 1, sizeof(*f->merges));
            f->merges[f->vocab.n_merges++] = copy_str(field[1]);
        } else if (n_fields == 2 && strcmp(field[0], "charsmap") == 0) {
            add_charsmap(f, field[1]);
        } else if (n_fields > 0) {
            die(path, field[0]);
        }
    }
    free(text);
    f->vocab.tokens = f->tokens;
    f->vocab.scores = f->scores;
    f->vocab.types = f->types;
    f->vocab.merges = f->merges;
    f->vocab.charsmap = f->charsmap;
}

void vocab_file_free(struct vocab_file * f) {
    for (size_t i = 0; i < f->vocab.n_tokens; i++) { free((void *) f->tokens[i].data); }
    for (size_t i = 0; i < f->vocab.n_merges; i++) { free((void *) f->merges[i].data); }
    free(f->tokens);
    free(f->scores);
    free(f->types);
    free(f->merges);
    free(f->charsmap);
    memset(f, 0, sizeof(*f));
}
