#include "stream.h"
#include "output.h"

#include "ggml-backend.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW_ITEMS = 1024, WINDOW_BATCHES = 8, WINDOW_BYTES = 64 << 20 };

static volatile sig_atomic_t stop;

static void on_signal(int sig) {
    stop = 1;
    signal(sig, SIG_DFL); // a second one ends the program at once
}
bool interrupted(void) { return stop != 0; }

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

// ---- opening ----

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) fputs(text, stderr);
    (void) user;
}

static void check_prompt(const struct stream * s) {
    char names[512] = "";
    if (!s->o->prompt || mra_model_prompt(s->model, s->o->prompt)) return;
    const char * name;
    for (int i = 0; (name = mra_model_prompt_name(s->model, i)); i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "; it has ", name);
    }
    fatal(s->program, "--prompt %s: %s has no prompt of that name%s", s->o->prompt, s->o->model, names);
}

static void load_model(struct stream * s) {
    struct mra_error err;
    struct mra_model_params p = { .device = s->o->device };
    const bool any = strcmp(p.device, "auto") == 0;
    if (any) p.device = "cuda";
    s->model = mra_model_load(s->o->model, &p, &err);
    const char * none = !s->model && err.code == MRA_ERR_UNSUPPORTED ? strstr(err.msg, "no CUDA device") : NULL;
    if (none && any) {
        if (ggml_backend_reg_by_name("CUDA"))
            fprintf(stderr, "%s: %s; using the CPU\n", s->program, none); // else nobody expects one
        p.device = "cpu";
        s->model = mra_model_load(s->o->model, &p, &err);
    } else if (none) {
        fatal(s->program, "--device cuda: %s; use --device cpu or auto", none);
    }
    if (!s->model) fatal(s->program, "%s", err.msg);
    s->info = mra_model_info(s->model);
    if (*s->info.note) fprintf(stderr, "%s: %s\n", s->program, s->info.note);
    check_prompt(s);
}

static void new_contexts(struct stream * s) {
    struct mra_error err;
    struct mra_context_params p = mra_context_params_default();
    p.n_threads = s->o->n_threads;
    p.attention = s->o->attention;
    p.attn = s->o->attn;
    p.profile = s->o->verbose;
    if (s->o->batch_tokens) p.n_batch = s->o->batch_tokens;
    if (!(s->ctx = mra_context_new(s->model, &p, &err))) fatal(s->program, "%s", err.msg);
    if (*mra_context_note(s->ctx))
        fprintf(stderr, "%s: attention runs on the CPU: %s\n", s->program, mra_context_note(s->ctx));
    p.attention = MRA_ATTENTION_EXACT;
    p.profile = false;
    if (s->o->verify && !(s->exact = mra_context_new(s->model, &p, &err))) fatal(s->program, "%s", err.msg);
}

static void print_model(const struct stream * s) {
    const struct mra_model_info * i = &s->info;
    fprintf(stderr, "%s: %s%s%s, %s, %.1fM parameters, %d layers, width %d, %d heads, %d positions", s->program,
        i->name, *i->name ? ": " : "", *i->family ? i->family : "bert", i->type, (double) i->n_params / 1e6, i->n_layer,
        i->n_embd, i->n_head, i->n_ctx);
    if (i->max_length < i->n_ctx) fprintf(stderr, ", texts up to %d tokens", i->max_length);
    if (i->has_mlm) fprintf(stderr, ", fill-mask");
    if (i->n_class) fprintf(stderr, ", %d labels", i->n_class);
    fprintf(stderr, "; %s, kernels %s\n", i->device, mra_isa());
}

static void catch_signals(void) {
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    const struct sigaction on = { .sa_handler = on_signal },
                           ignore = { .sa_handler = SIG_IGN }; // no SA_RESTART: reads must end
    for (int i = 0; i < 3; i++) {
        struct sigaction old;
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ends[i], &on, NULL); // nohup stays in force
    }
    sigaction(SIGPIPE, &ignore, NULL); // a write then fails with EPIPE
    sigaction(SIGXFSZ, &ignore, NULL);
}

void stream_open(struct stream * s, const struct args * a, const struct options * o) {
    *s = (struct stream) { .o = o, .program = a->program, .cosine = INFINITY, .t_start = now_ms() };
    ggml_log_set(quiet, NULL);
    catch_signals();
    load_model(s);
    s->load_ms = now_ms() - s->t_start;
    const bool chunk = o->truncate == TRUNCATE_CHUNK;
    s->limit = o->max_tokens ? o->max_tokens : chunk ? s->info.n_ctx : s->info.max_length;
    if (s->limit > s->info.n_ctx)
        fatal(s->program, "--max-tokens %d: the model has %d positions", s->limit, s->info.n_ctx);
    if (o->verbose) print_model(s);
}

// ---- the window ----

void item_free(struct item * it) {
    record_free(&it->rec);
    mra_token_list_free(&it->list);
    free(it->passes);
    free(it->seqs);
    free(it->at);
    free(it->result);
    memset(it, 0, sizeof(*it));
}

void item_fail(struct item * it, enum mra_status code, const char * why) {
    it->failed = true;
    mra_fail(&it->err, code, "%s", why);
}

static bool add_prefix(struct record * r, const char * prefix) {
    const size_t n = strlen(prefix);
    char * p = malloc(n + r->n_text + 1);
    if (!p) return false;
    memcpy(p, prefix, n);
    memcpy(p + n, r->text, r->n_text + 1);
    free(r->text);
    r->text = p;
    r->n_text += n;
    return true;
}

const char * stream_prefix(const struct stream * s) {
    if (s->o->prefix) return s->o->prefix;
    return s->o->prompt || s->embeds ? mra_model_prompt(s->model, s->o->prompt) : NULL;
}

uint32_t stream_offset(const struct stream * s, uint32_t at) {
    const char * prefix = stream_prefix(s);
    const size_t n = prefix ? strlen(prefix) : 0;
    return at > n ? at - (uint32_t) n : 0;
}

// the next records, as many as make a window or as there are for now
static enum input_state fill_window(struct stream * s) {
    const int64_t most = (int64_t) (s->o->batch_tokens ? s->o->batch_tokens : 8192) * WINDOW_BATCHES,
                  from = s->in.offset;
    int64_t n_tokens = 0;
    for (s->n_items = 0; s->n_items < WINDOW_ITEMS && n_tokens < most && s->in.offset - from < WINDOW_BYTES;) {
        if (s->n_items == s->cap_items) {
            s->cap_items = 2 * s->cap_items + 16;
            s->items = realloc(s->items, (size_t) s->cap_items * sizeof(*s->items));
            if (!s->items) fatal(s->program, "out of memory");
        }
        struct item * it = &s->items[s->n_items];
        *it = (struct item) { 0 };
        struct mra_error err;
        const enum input_state st = input_next(&s->in, &it->rec, s->n_items == 0, &err);
        if (st == INPUT_FAILED && err.code != MRA_OK) { // what came before it is still done
            progress_clear();
            fprintf(stderr, "%s: %s\n", s->program, err.msg);
        }
        if (st != INPUT_RECORD) return st == INPUT_NOT_YET ? INPUT_RECORD : st;
        if (interrupted()) {
            item_free(it);
            return INPUT_FAILED;
        }
        if (resume_has(s, &it->rec)) {
            s->n_skipped++;
            s->done_bytes = it->rec.end;
            item_free(it);
            continue;
        }
        const double t = now_ms();
        if (it->rec.status != MRA_OK) item_fail(it, it->rec.status, it->rec.error);
        const char * prefix = stream_prefix(s);
        if (!it->failed && prefix && !add_prefix(&it->rec, prefix)) item_fail(it, MRA_ERR_MEMORY, "out of memory");
        if (!it->failed && s->record) s->record(s, it);
        if (!it->failed) item_tokenize(s, it);
        if (!it->failed && s->prepare) s->prepare(s, it);
        s->tokenize_ms += now_ms() - t;
        n_tokens += it->n_tokens;
        s->n_items++;
    }
    return INPUT_RECORD;
}

static void report(struct stream * s, const struct item * it) {
    progress_clear();
    fprintf(stderr, "%s: %s %lld", s->program, s->in.fd < 0 ? "argument" : "line", (long long) it->rec.line);
    if (it->rec.id) fprintf(stderr, " (id %.80s)", it->rec.id);
    fprintf(stderr, ": %s\n", it->err.msg);
}

// writes the window up to the first record that an interruption left undone; false: no more can be written
static bool emit_window(struct stream * s) {
    const double t = now_ms();
    progress_clear(); // stdout may be the same terminal
    for (int i = 0; i < s->n_items && (s->items[i].done || s->items[i].failed); i++) {
        struct item * it = &s->items[i];
        if (it->failed) {
            s->n_failed++;
            report(s, it);
        } else s->n_done++;
        if (s->emit && (!it->failed || s->emit_failed)) s->emit(s, it);
        if (s->out.error) break;
        s->done_bytes = it->rec.end;
    }
    const bool good = sink_flush(&s->out);
    if (good && s->flushed) s->flushed(s);
    s->write_ms += now_ms() - t;
    return good;
}

static void free_window(struct stream * s) {
    for (int i = 0; i < s->n_items; i++) item_free(&s->items[i]);
    s->n_items = 0;
}

// ---- running ----

static void print_verify(const struct stream * s) {
    fprintf(stderr,
        "%s: against exact attention, worst record: max error %.3g, relative error %.3g, cosine %.6f; exact took %.2f "
        "s, this %.2f s\n",
        s->program, s->max_err, s->rel_err, s->cosine, s->exact_ms / 1e3, s->encode_ms / 1e3);
}

static void print_times(const struct stream * s) {
    const double total = now_ms() - s->t_start;
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    fprintf(stderr,
        "%s: %lld records, %lld tokens in %.2f s (%.0f tokens/s); memory: %.1f MB activations, %.1f MB weights, %.0f "
        "MB at most in all\n",
        s->program, (long long) s->n_done, (long long) s->n_computed, total / 1e3,
        s->encode_ms > 0 ? (double) s->n_computed / s->encode_ms * 1e3 : 0, (double) s->compute_bytes / 1e6,
        (double) s->info.n_bytes / 1e6, (double) u.ru_maxrss * 1024 / 1e6);
    fprintf(stderr, "%s: load %.0f ms, tokenize %.0f ms, graphs %.0f ms", s->program, s->load_ms, s->tokenize_ms,
        s->build_ms);
    for (int i = 0; i < MRA_PART_COUNT; i++)
        fprintf(stderr, ", %s %.0f ms", mra_part_name((enum mra_part) i), s->part_ms[i]);
    if (s->exact) fprintf(stderr, ", exact %.0f ms", s->exact_ms);
    fprintf(stderr, ", write %.0f ms\n", s->write_ms);
}

static int finish(struct stream * s, bool failed) {
    progress_clear();
    const int64_t n_failed = s->n_failed, n_all = s->n_done + n_failed;
    const int error = s->out.error;
    if (error) sink_retry(&s->out); // a full disk: what is there still gets its end
    if (s->end) s->end(s);
    if (error && !sink_flush(&s->out) && sink_back(&s->out) && s->end) s->end(s);
    sink_flush(&s->out);
    if (error) s->out.error = error;
    if (!sink_close(&s->out, s->program)) failed = true;
    if (s->exact && s->n_done) print_verify(s);
    if (s->o->verbose && s->ctx) print_times(s);
    if (s->n_skipped) fprintf(stderr, "%s: %lld records were finished before\n", s->program, (long long) s->n_skipped);
    if (interrupted()) fprintf(stderr, "%s: interrupted after %lld records\n", s->program, (long long) s->n_done);
    if (n_failed)
        fprintf(stderr, "%s: %lld of %lld records failed\n", s->program, (long long) n_failed, (long long) n_all);
    input_close(&s->in);
    mra_context_free(s->ctx);
    mra_context_free(s->exact);
    mra_model_free(s->model);
    free(s->items);
    free(s->finished);
    return failed ? 1 : interrupted() ? 130 : n_failed ? 3 : 0;
}

int stream_run(struct stream * s) {
    struct mra_error err;
    if (s->o->dry_run) {
        s->collect = NULL;
        s->begin = estimate_begin;
        s->emit = estimate_emit;
        s->end = estimate_end;
        s->flushed = NULL;
        s->emit_failed = false;
    } else if (s->collect) {
        new_contexts(s);
    }
    if (input_open(&s->in, s->o->file, s->o->texts, s->o->n_texts, s->o->input, &err) != MRA_OK)
        fatal(s->program, "%s", err.msg);
    const int64_t keep = s->o->resume ? resume_read(s) : -1;
    if (sink_open(&s->out, s->o->out, keep, &err) != MRA_OK) fatal(s->program, "%s", err.msg);
    if (s->begin) s->begin(s);
    progress_records(0, s->in.size > 0 ? 0 : -1);
    s->t_start = now_ms() - s->load_ms;
    bool failed = s->out.error != 0;
    for (enum input_state st = INPUT_RECORD; st == INPUT_RECORD && !failed && !interrupted();) {
        st = fill_window(s);
        if (st == INPUT_FAILED && !interrupted()) failed = true;
        if (s->collect) window_encode(s);
        else
            for (int i = 0; i < s->n_items; i++) s->items[i].done = true;
        const bool good = emit_window(s);
        free_window(s);
        if (!good) break; // sink_close says why, and whether that is a failure
        progress_records(s->n_done + s->n_failed, s->in.size > 0 ? (double) s->done_bytes / (double) s->in.size : -1);
    }
    return finish(s, failed);
}

// ---- pieces of JSON records ----

void stream_json_head(struct stream * s, const struct item * it) {
    sink_text(&s->out, "{");
    if (it->rec.id) {
        sink_text(&s->out, "\"id\": ");
        sink_text(&s->out, it->rec.id);
        sink_text(&s->out, ", ");
    }
    if (s->in.fd >= 0) sink_printf(&s->out, "\"line\": %lld, ", (long long) it->rec.line);
}

void stream_json_tail(struct stream * s, const struct item * it) {
    if (s->exact) {
        sink_printf(&s->out, ", \"verify\": {\"max_error\": %.3g, \"relative_error\": %.3g, \"cosine\": ", it->max_err,
            it->rel_err);
        sink_real(&s->out, it->cosine, 7);
        sink_text(&s->out, "}");
    }
    sink_text(&s->out, "}");
}

void stream_line_end(struct stream * s) {
    sink_text(&s->out, "\n");
    sink_commit(&s->out);
}

void stream_name(struct stream * s, const struct item * it) {
    const size_t n = it->rec.id ? strlen(it->rec.id) : 0;
    if (n >= 2 && it->rec.id[0] == '"') sink_write(&s->out, it->rec.id + 1, n - 2);
    else if (n) sink_text(&s->out, it->rec.id);
    else sink_printf(&s->out, "%lld", (long long) it->rec.line);
}
