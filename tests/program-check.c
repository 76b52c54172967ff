// What test-programs.sh cannot do in sh:
//   program-check json FILE              FILE is one JSON value
//   program-check jsonl FILE N           FILE is N lines, each a JSON object, all of it UTF-8
//   program-check npy FILE ROWS COLS     shape and, as its last line of output, the number of rows with NaN
//   program-check same A.npy B.npy TOL   equal shapes, largest difference at most TOL
//   program-check cosine GOLDEN OUT MIN  embeddings of OUT (JSON Lines) against minilm.json
//   program-check texts FILE MODEL       texts of MODEL in texts.json as JSON Lines
//   program-check ids OUT FILE MODEL     mra-tokenize --json --ids of those texts against their ids
//   program-check extend IN OUT N        IN.gguf with its positions repeated up to N
//   program-check imatrix FILE MODEL NPY a vector for each matrix of MODEL's layers (q, k and v share one);
//                                        that of cls.weight is the mean square of NPY's rows, the first tokens' states
//   program-check key IN OUT KEY TEXT    IN.gguf with a key of type string
//   program-check pty COMMAND...         stderr of COMMAND on a terminal, copied to stdout; its exit code
//   program-check interrupt FILE COMMAND...  sends COMMAND SIGINT once FILE holds something; its exit code,
//                                        or 1 where it took more than two seconds to end
//   program-check rss COMMAND...         runs COMMAND, prints its peak memory in kB on stderr; its exit code
#include "gguf-edit.h"

#include "../examples/common/npy.h"
#include "../examples/common/utf8-length.h"

#include <cjson/cJSON.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DIE(...) \
    do { \
        fprintf(stderr, "program-check: " __VA_ARGS__); \
        fputc('\n', stderr); \
        exit(1); \
    } while (0)

static char * read_all(const char * path) {
    FILE * f = fopen(path, "rb");
    if (!f) DIE("cannot open %s", path);
    size_t n = 0, cap = 1 << 20;
    char * s = malloc(cap);
    for (size_t got; s && (got = fread(s + n, 1, cap - n - 1, f)) > 0;) {
        n += got;
        if (cap - n < 2) s = realloc(s, cap *= 2);
    }
    fclose(f);
    if (!s) DIE("out of memory");
    s[n] = 0;
    return s;
}

static int check_json(const char * path) {
    char * s = read_all(path);
    const char * end;
    cJSON * j = cJSON_ParseWithOpts(s, &end, 1);
    if (!j) DIE("%s is not JSON at byte %td", path, end - s);
    cJSON_Delete(j);
    free(s);
    return 0;
}

static int check_jsonl(const char * path, int n) {
    char * s = read_all(path);
    int got = 0;
    for (size_t i = 0, len, size = strlen(s); i < size; i += len) {
        len = utf8_length((const unsigned char *) s + i, size - i);
        if (len == 0) DIE("%s: byte %zu is not UTF-8", path, i);
    }
    for (char *line = s, *end; *line; line = end + 1, got++) {
        end = strchr(line, '\n');
        if (!end) DIE("%s: no newline at the end of line %d", path, got + 1);
        *end = 0;
        cJSON * j = cJSON_ParseWithOpts(line, NULL, 1);
        if (!cJSON_IsObject(j)) DIE("%s: line %d is not an object", path, got + 1);
        cJSON_Delete(j);
    }
    free(s);
    if (got != n) DIE("%s has %d lines, not %d", path, got, n);
    return 0;
}

static struct npy read_npy(const char * path) {
    struct npy a;
    struct mra_error err;
    if (npy_read(&a, path, &err) != MRA_OK) DIE("%s", err.msg);
    if (a.n_dim != 2) DIE("%s has %d dimensions", path, a.n_dim);
    return a;
}

static int check_npy(const char * path, int rows, int cols) {
    struct npy a = read_npy(path);
    if (a.shape[0] != rows || a.shape[1] != cols)
        DIE("%s has shape %lld, %lld", path, (long long) a.shape[0], (long long) a.shape[1]);
    int n_nan = 0;
    for (int i = 0; i < rows; i++) n_nan += isnan(a.data[(int64_t) i * cols]);
    printf("%d\n", n_nan);
    npy_free(&a);
    return 0;
}

static int check_same(const char * pa, const char * pb, double tol) {
    struct npy a = read_npy(pa), b = read_npy(pb);
    if (a.shape[0] != b.shape[0] || a.shape[1] != b.shape[1]) DIE("%s and %s have different shapes", pa, pb);
    for (int64_t i = 0; i < a.n; i++)
        if (!(fabs((double) a.data[i] - b.data[i]) <= tol))
            DIE("%s: value %lld is %g, not %g", pa, (long long) i, a.data[i], b.data[i]);
    npy_free(&a);
    npy_free(&b);
    return 0;
}

static int check_cosine(const char * golden, const char * out, double min) {
    char *g = read_all(golden), *s = read_all(out), *line = s;
    cJSON *all = cJSON_Parse(g), *c;
    double worst = 2;
    int n = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, "cases")) {
        cJSON *j = cJSON_ParseWithOpts(line, (const char **) &line, 0), *want = cJSON_GetObjectItem(c, "embedding"),
              *x = cJSON_GetObjectItem(j, "embedding"), *y;
        double xx = 0, yy = 0, xy = 0;
        if (!j || cJSON_GetArraySize(x) != cJSON_GetArraySize(want)) DIE("%s: embedding %d is not there", out, n);
        x = x->child;
        cJSON_ArrayForEach(y, want) {
            xx += x->valuedouble * x->valuedouble;
            yy += y->valuedouble * y->valuedouble;
            xy += x->valuedouble * y->valuedouble;
            x = x->next;
        }
        worst = fmin(worst, xy / sqrt(xx * yy));
        if (!(xy / sqrt(xx * yy) >= min)) DIE("embedding %d: cosine %.6f to the reference", n, xy / sqrt(xx * yy));
        cJSON_Delete(j);
        n++;
    }
    if (n == 0) DIE("%s holds no cases", golden);
    printf("%d embeddings, smallest cosine to the reference %.6f\n", n, worst);
    cJSON_Delete(all);
    free(g);
    free(s);
    return 0;
}

static int print_texts(const char * path, const char * model) {
    char * s = read_all(path);
    cJSON *all = cJSON_Parse(s), *c;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, model)) {
        cJSON * o = cJSON_CreateObject();
        cJSON_AddItemToObject(o, "text_pair", cJSON_Duplicate(cJSON_GetObjectItem(c, "pair"), 1));
        cJSON_AddItemToObject(o, "text", cJSON_Duplicate(cJSON_GetObjectItem(c, "text"), 1));
        char * line = cJSON_PrintUnformatted(o);
        puts(line);
        free(line);
        cJSON_Delete(o);
    }
    cJSON_Delete(all);
    free(s);
    return 0;
}

static int check_ids(const char * out, const char * path, const char * model) {
    char *t = read_all(path), *s = read_all(out), *line = s;
    cJSON *all = cJSON_Parse(t), *c;
    int n = 0;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(all, model)) {
        cJSON * j = cJSON_ParseWithOpts(line, (const char **) &line, 0);
        if (!cJSON_Compare(cJSON_GetObjectItem(j, "ids"), cJSON_GetObjectItem(c, "ids"), 1))
            DIE("%s: text %d of %s has other ids", out, n, model);
        cJSON_Delete(j);
        n++;
    }
    if (n == 0) DIE("no texts of %s", model);
    cJSON_Delete(all);
    free(s);
    free(t);
    return 0;
}

static void check_mean_squares(const struct ggml_tensor * t, const char * path) {
    struct npy a;
    struct mra_error err;
    if (npy_read(&a, path, &err) != MRA_OK) DIE("%s", err.msg);
    if (a.n_dim != 2 || a.shape[0] < 2 || a.shape[1] != t->ne[0]) DIE("%s has another shape", path);
    for (int64_t c = 0; c < a.shape[1]; c++) {
        double sum = 0;
        for (int64_t r = 0; r < a.shape[0]; r++)
            sum += (double) a.data[r * a.shape[1] + c] * a.data[r * a.shape[1] + c];
        const double mean = sum / (double) a.shape[0], x = ((const float *) t->data)[c];
        if (fabs(x - mean) > .01 * mean) DIE("%s, column %d: %g, not %g", ggml_get_name(t), (int) c, x, mean);
    }
    npy_free(&a);
}

static int check_imatrix(const char * path, const char * model, const char * states) {
    struct gguf_edit a = gguf_edit_open(path), m = gguf_edit_open(model);
    const struct ggml_tensor * q = NULL;
    int n = 0;
    for (int i = 0; i < m.n; i++) {
        const char * name = ggml_get_name(m.t[i]);
        if (strncmp(name, "blk.", 4) != 0 || ggml_n_dims(m.t[i]) < 2) continue;
        const struct ggml_tensor * t = gguf_edit_find(&a, name);
        if (t->ne[0] != m.t[i]->ne[0] || ggml_nelements(t) != t->ne[0]) DIE("%s has another length", name);
        for (int64_t c = 0; c < t->ne[0]; c++)
            if (!(((float *) t->data)[c] > 0 && isfinite(((float *) t->data)[c]))) DIE("%s: no mean square", name);
        if (strstr(name, "attn_q.")) q = t;
        const bool of_q = strstr(name, "attn_k.") || strstr(name, "attn_v.");
        if (q && q != t && (memcmp(q->data, t->data, ggml_nbytes(q)) == 0) != of_q) DIE("%s against attn_q", name);
        n++;
    }
    if (n == 0 || n > a.n) DIE("%d vectors, %d matrices", a.n, n); // a head has some, too
    check_mean_squares(gguf_edit_find(&a, "cls.weight"), states);
    gguf_edit_free(&a);
    gguf_edit_free(&m);
    return 0;
}

static int extend(const char * in, const char * out, int n) {
    struct gguf_edit e = gguf_edit_open(in);
    const struct ggml_tensor * old = gguf_edit_find(&e, "position_embd.weight");
    const size_t row = old->nb[1], rows = (size_t) old->ne[1];
    char * copy = malloc(row * rows);
    memcpy(copy, old->data, row * rows);
    const enum ggml_type type = old->type;
    const int64_t width = old->ne[0];
    gguf_edit_drop(&e, "position_embd.weight");
    struct ggml_tensor * t = gguf_edit_add(&e, "position_embd.weight", type, width, n);
    for (int i = 0; i < n; i++) memcpy((char *) t->data + (size_t) i * t->nb[1], copy + (size_t) i % rows * row, row);
    gguf_edit_drop_keys(&e, "mra.max_length");
    gguf_set_val_u32(e.kv, "bert.context_length", (uint32_t) n);
    gguf_edit_write(&e, out);
    gguf_edit_free(&e);
    free(copy);
    return 0;
}

// value `at` of an F32 tensor, or all where it is -1, gets these bits
static int set_values(const char * in, const char * out, const char * name, long at, const char * bits) {
    struct gguf_edit e = gguf_edit_open(in);
    struct ggml_tensor * t = gguf_edit_find(&e, name);
    const uint32_t value = (uint32_t) strtoul(bits, NULL, 16);
    if (t->type != GGML_TYPE_F32 || at >= ggml_nelements(t)) DIE("%s has no such value of F32", name);
    for (long i = at < 0 ? 0 : at; i < (at < 0 ? ggml_nelements(t) : at + 1); i++) ((uint32_t *) t->data)[i] = value;
    gguf_edit_write(&e, out);
    gguf_edit_free(&e);
    return 0;
}

static int set_key(const char * in, const char * out, const char * key, const char * text) {
    struct gguf_edit e = gguf_edit_open(in);
    gguf_set_val_str(e.kv, key, text);
    gguf_edit_write(&e, out);
    gguf_edit_free(&e);
    return 0;
}

static int exit_code(pid_t pid) {
    int status;
    if (waitpid(pid, &status, 0) < 0) DIE("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int on_pty(char ** argv) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return 77;
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY), null = open("/dev/null", O_WRONLY);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(null, STDOUT_FILENO);
        dup2(slave, STDERR_FILENO);
        close(master);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(slave);
    char buf[4096];
    for (ssize_t n; (n = read(master, buf, sizeof(buf))) > 0;) fwrite(buf, 1, (size_t) n, stdout);
    return exit_code(pid);
}

static int interrupt(const char * path, char ** argv) {
    unlink(path);
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        execvp(argv[0], argv);
        _exit(127);
    } // sh starts background jobs with SIGINT ignored
    struct stat st;
    for (int i = 0; i < 2000 && (stat(path, &st) != 0 || st.st_size < 100); i++) usleep(5000);
    struct timespec sent, ended;
    clock_gettime(CLOCK_MONOTONIC, &sent);
    kill(pid, SIGINT);
    const int code = exit_code(pid);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    if (ended.tv_sec - sent.tv_sec > 2) DIE("it ended %ld s after SIGINT", (long) (ended.tv_sec - sent.tv_sec));
    return code;
}

static int with_rss(char ** argv) {
    const pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    const int code = exit_code(pid);
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    fprintf(stderr, "%ld\n", u.ru_maxrss);
    return code;
}

int main(int argc, char ** argv) {
    const char * what = argc > 2 ? argv[1] : "";
    if (argc == 3 && strcmp(what, "json") == 0) return check_json(argv[2]);
    if (argc == 4 && strcmp(what, "jsonl") == 0) return check_jsonl(argv[2], atoi(argv[3]));
    if (argc == 5 && strcmp(what, "npy") == 0) return check_npy(argv[2], atoi(argv[3]), atoi(argv[4]));
    if (argc == 5 && strcmp(what, "same") == 0) return check_same(argv[2], argv[3], atof(argv[4]));
    if (argc == 5 && strcmp(what, "cosine") == 0) return check_cosine(argv[2], argv[3], atof(argv[4]));
    if (argc == 4 && strcmp(what, "texts") == 0) return print_texts(argv[2], argv[3]);
    if (argc == 5 && strcmp(what, "ids") == 0) return check_ids(argv[2], argv[3], argv[4]);
    if (argc == 5 && strcmp(what, "imatrix") == 0) return check_imatrix(argv[2], argv[3], argv[4]);
    if (argc == 7 && strcmp(what, "values") == 0) return set_values(argv[2], argv[3], argv[4], atol(argv[5]), argv[6]);
    if (argc == 5 && strcmp(what, "extend") == 0) return extend(argv[2], argv[3], atoi(argv[4]));
    if (argc == 6 && strcmp(what, "key") == 0) return set_key(argv[2], argv[3], argv[4], argv[5]);
    if (argc > 2 && strcmp(what, "pty") == 0) return on_pty(argv + 2);
    if (argc > 3 && strcmp(what, "interrupt") == 0) return interrupt(argv[2], argv + 3);
    if (argc > 2 && strcmp(what, "rss") == 0) return with_rss(argv + 2);
    fprintf(stderr, "usage: see the head of program-check.c\n");
    return 2;
}
