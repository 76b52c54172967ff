// What is asked of the machine before ggml needs it: free memory, threads, a model's file that stays as it was.
#include "encoder-golden.h"
#include "machine.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- free memory, from a folder that looks like a machine ----

static void put(const char * root, const char * path, const char * text) {
    char name[2048];
    snprintf(name, sizeof(name), "%s%s", root, path);
    for (char * p = strchr(name + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        mkdir(name, 0700);
        *p = '/';
    }
    FILE * f = fopen(name, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) exit(1);
}

static void test_free_memory(const char * folder) {
    char v2[1024], v1[1024], none[1024];
    snprintf(v2, sizeof(v2), "%s/v2", folder);
    snprintf(v1, sizeof(v1), "%s/v1", folder);
    snprintf(none, sizeof(none), "%s/none", folder);
    CHECK(mra_memory_free(none) == SIZE_MAX, "a machine that says nothing has %zu bytes", mra_memory_free(none));

    put(v2, "/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n");
    CHECK(mra_memory_free(v2) == 5000 * 1024, "MemAvailable: %zu", mra_memory_free(v2));
    put(v2, "/proc/self/cgroup", "0::/a/b\n");
    put(v2, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    put(v2, "/sys/fs/cgroup/a/b/memory.current", "1000\n");
    CHECK(mra_memory_free(v2) == 5000 * 1024, "a group without a limit: %zu", mra_memory_free(v2));
    put(v2, "/sys/fs/cgroup/a/memory.max", "3000000\n");
    put(v2, "/sys/fs/cgroup/a/memory.current", "2000000\n");
    put(v2, "/sys/fs/cgroup/a/memory.stat", "anon 7\nfile 8\ninactive_file 500000\n");
    CHECK(mra_memory_free(v2) == 1500000, "the limit of the group above: %zu", mra_memory_free(v2));
    put(v2, "/sys/fs/cgroup/a/b/memory.max", "900\n");
    CHECK(mra_memory_free(v2) == 0, "a group above its limit: %zu", mra_memory_free(v2));

    put(v1, "/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/not/to/be/seen\n");
    put(v1, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
    put(v1, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "300000\n");
    put(v1, "/sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 100000\n");
    CHECK(mra_memory_free(v1) == 500000, "groups of version 1: %zu", mra_memory_free(v1));
    CHECK(mra_memory_free("") > 1 << 20, "this machine has no memory");
}

static void test_cpus(const char * folder) {
    char v2[1024], v1[1024];
    const int all = mra_cpu_count(folder); // it says nothing
    snprintf(v2, sizeof(v2), "%s/v2", folder);
    snprintf(v1, sizeof(v1), "%s/v1", folder);
    CHECK(all >= 1, "%d CPUs", all);
    put(v2, "/proc/self/cgroup", "0::/a/b\n");
    put(v2, "/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK(mra_cpu_count(v2) == all, "no limit: %d", mra_cpu_count(v2));
    put(v2, "/sys/fs/cgroup/a/cpu.max", "60000 100000\n");
    CHECK(mra_cpu_count(v2) == 1, "time for .6 CPUs: %d", mra_cpu_count(v2));
    put(v1, "/proc/self/cgroup", "5:cpuacct,cpu:/x\n");
    put(v1, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put(v1, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(mra_cpu_count(v1) == all, "version 1, no limit: %d", mra_cpu_count(v1));
    put(v1, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    CHECK(mra_cpu_count(v1) == 1, "version 1, time for 1 CPU: %d", mra_cpu_count(v1));
}

// ---- limits ----

enum { LONG = 128 }; // all positions the model has

static struct mra_seq long_sequence(const struct golden * g, int n) {
    static int32_t ids[LONG];
    for (int i = 0; i < LONG; i++) ids[i] = g->seqs[0].ids[i % g->seqs[0].n];
    return (struct mra_seq) { .n = n, .ids = ids };
}

// the bytes that a batch takes, then less and less of it: the same rows, until one sequence is too much
static void test_limit(const struct golden * g) {
    const struct mra_seq all[] = { long_sequence(g, 100), long_sequence(g, 60), long_sequence(g, 90),
        long_sequence(g, LONG) };
    struct mra_context * ctx = context(g->model, threads(1));
    const struct mra_result r = encode(ctx, all, 4, pooled(MRA_POOLING_MEAN));
    const int n_graphs = mra_context_stats(ctx).n_graphs;
    const size_t most = mra_context_stats(ctx).compute_bytes, n = (size_t) (r.n_rows * r.n_cols);
    struct mra_seq short_one = all[1];
    short_one.n = 8;
    float * copy = malloc(n * sizeof(float));
    memcpy(copy, r.data, n * sizeof(float));
    mra_context_free(ctx);
    ctx = context(g->model, threads(1));
    encode(ctx, &short_one, 1, pooled(MRA_POOLING_MEAN));
    const size_t least = mra_context_stats(ctx).compute_bytes;
    mra_context_free(ctx);
    bool fewer = false, refused = false;
    CHECK(most > 100000, "%zu bytes are no pass", most);
    for (size_t bytes = most + 100000; most > 100000 && bytes > most / 2; bytes -= most / 64) {
        struct mra_context_params p = threads(1);
        p.max_bytes = bytes;
        struct mra_context * c = context(g->model, p);
        struct mra_result x;
        struct mra_error err = { 0 };
        struct mra_output want = pooled(MRA_POOLING_MEAN);
        const enum mra_status st = mra_encode(c, all, 4, &want, &x, &err);
        const size_t used = mra_context_stats(c).compute_bytes;
        CHECK(used <= bytes, "%zu bytes allowed, %zu used", bytes, used);
        if (st == MRA_OK) {
            fewer = fewer || mra_context_stats(c).n_graphs > n_graphs;
            CHECK(!refused, "%zu bytes are enough, more are not", bytes);
            CHECK(memcmp(x.data, copy, n * sizeof(float)) == 0, "%zu bytes give other rows", bytes);
        } else {
            refused = true;
            CHECK(st == MRA_ERR_MEMORY, "status %d: %s", (int) st, err.msg);
            CHECK(strstr(err.msg, " tokens need ") && strstr(err.msg, "the limit is"), "message '%s'", err.msg);
            CHECK(mra_encode(c, &short_one, 1, &want, &x, &err) == MRA_OK || bytes < least + 100000,
                "%zu bytes, 8 tokens: %s", bytes, err.msg);
        }
        mra_context_free(c);
    }
    CHECK(fewer && refused, "the limits tried make no difference (%zu bytes)", most);
    free(copy);
}

// in a process of its own: less and less address space, until nothing works; nothing may die of it
static void in_less_memory(const struct golden * g, size_t mb) {
    const struct mra_seq seq = long_sequence(g, LONG);
    struct mra_output want = pooled(MRA_POOLING_MEAN);
    struct mra_result r;
    struct mra_error err;
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);
    FILE * f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!f || fscanf(f, "%lu", &pages) != 1) _exit(9);
    fclose(f);
    const struct rlimit limit = { pages * page + (mb << 20), RLIM_INFINITY };
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(9);
    struct mra_model * m = mra_model_load(g->path, NULL, &err);
    struct mra_context_params p = threads(2);
    struct mra_context * ctx = m ? mra_context_new(m, &p, &err) : NULL;
    enum mra_status st = ctx ? mra_encode(ctx, &seq, 1, &want, &r, &err) : err.code;
    mra_context_free(ctx);
    mra_model_free(m);
    _exit(st == MRA_OK ? 0 : st == MRA_ERR_MEMORY ? 1 : 2);
}

static void test_address_space(const struct golden * g) {
    int n[2] = { 0 };
    for (size_t mb = 0; mb < 64; mb++) {
        const pid_t pid = fork();
        if (pid == 0) in_less_memory(g, mb);
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) < 2, "%zu MB: status %#x", mb, (unsigned) status);
        if (WIFEXITED(status) && WEXITSTATUS(status) < 2) n[WEXITSTATUS(status)]++;
    }
    CHECK(n[0] > 0 && n[1] > 0, "%d sizes are enough, %d are not: nothing is tested", n[0], n[1]);
}

// ---- the model's file ----

static void test_changed_file(const struct golden * g) {
    const char * path = temp_path("changed");
    static const char * const ways[] = { "cut", "written again" };
    for (int way = 0; way < 2; way++)
        for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
            char command[4096];
            snprintf(command, sizeof(command), "cp '%s' '%s'", g->path, path);
            if (system(command) != 0) exit(1);
            struct mra_model * m = load(path, &(struct mra_model_params) { .no_mmap = no_mmap });
            struct mra_context * ctx = context(m, threads(1));
            struct mra_output want = pooled(MRA_POOLING_MEAN);
            struct mra_result r;
            struct mra_error err = { 0 };
            CHECK(mra_encode(ctx, g->seqs, 1, &want, &r, &err) == MRA_OK, "before: %s", err.msg);
            const int fd = open(path, O_WRONLY);
            if (way == 0 ? ftruncate(fd, 5000) != 0 : pwrite(fd, "x", 1, 5000) != 1) exit(1);
            close(fd);
            const enum mra_status st = mra_encode(ctx, g->seqs, 1, &want, &r, &err);
            if (no_mmap) CHECK(st == MRA_OK, "a copy of a file that was %s: %s", ways[way], err.msg);
            else
                CHECK(st == MRA_ERR_IO && strstr(err.msg, "was changed while it is in use"), "file %s: status %d, %s",
                    ways[way], (int) st, err.msg);
            mra_context_free(ctx);
            mra_model_free(m);
        }
}

static void test_pipe_as_model(void) {
    const char * path = temp_path("pipe");
    struct mra_error err;
    if (mkfifo(path, 0600) != 0) exit(1);
    alarm(20); // a test that hangs ends
    struct mra_model * m = mra_model_load(path, NULL, &err);
    CHECK(!m && err.code == MRA_ERR_IO && strstr(err.msg, "is not a regular file"), "a pipe as model: %s", err.msg);
    alarm(0);
}

// ---- threads ----

static void test_too_many_threads(const struct golden * g) {
    const pid_t pid = fork();
    if (pid == 0) { // no room for the stacks of 200 threads
        const struct rlimit limit = { 1 << 30, RLIM_INFINITY };
        struct mra_context_params p = threads(200);
        struct mra_error err = { 0 };
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(9);
        struct mra_context * ctx = mra_context_new(g->model, &p, &err);
        _exit(ctx ? 2 : err.code == MRA_ERR_MEMORY && strstr(err.msg, "of 200 threads start") ? 0 : 3);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "threads that do not start: status %#x", (unsigned) status);
}

int main(int argc, char ** argv) {
    if (argc < 2) return 1;
    goldens_begin(argv[1]);
    struct golden g = golden_open("bert");
    test_free_memory(temp_path("machine"));
    test_cpus(temp_path("processors"));
    test_address_space(&g);
    test_too_many_threads(&g);
    test_limit(&g);
    test_changed_file(&g);
    test_pipe_as_model();
    golden_close(&g);
    char command[2048];
    snprintf(command, sizeof(command), "rm -rf '%s'/*", dirname(strdup(temp_path("x")))); // the test ends here
    if (system(command) != 0) return 1;
    goldens_end();
    return summary("test-memory");
}
