// free = min(MemAvailable, limit - (usage - reclaimable) of each control group up to the root, RLIMIT_AS - mapped)
// CPUs = min(affinity mask, quota / period of each control group, rounded up)
#include "machine.h"

#include "ggml.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_PATH = 1024, MAX_LINE = 512 };

static FILE * open_at(const char * root, const char * path) {
    char name[MAX_PATH + 64];
    const int n = snprintf(name, sizeof(name), "%s%s", root, path);
    return n < 0 || (size_t) n >= sizeof(name) ? NULL : fopen(name, "re");
}

// the number behind `key` at the start of a line, key "": the first number; SIZE_MAX: none, such as "max"
static size_t read_number(const char * root, const char * path, const char * key) {
    FILE * f = open_at(root, path);
    char line[MAX_LINE];
    size_t found = SIZE_MAX;
    const size_t n = strlen(key);
    while (f && found == SIZE_MAX && fgets(line, sizeof(line), f)) {
        char * end;
        if (strncmp(line, key, n) != 0) continue;
        const unsigned long long x = strtoull(line + n, &end, 10);
        if (end != line + n) found = (size_t) x;
        else if (n == 0) break;
    }
    if (f) fclose(f);
    return found;
}

// one number of the file `name` of a control group
static size_t group_number(const char * root, const char * group, const char * name, const char * key) {
    char path[MAX_PATH];
    const int n = snprintf(path, sizeof(path), "%s/%s", group, name);
    return n < 0 || (size_t) n >= sizeof(path) ? SIZE_MAX : read_number(root, path, key);
}

// what is left of a group's memory
static size_t left_of_memory(size_t limit, size_t usage, size_t reclaimable) {
    if (limit == SIZE_MAX || usage == SIZE_MAX) return SIZE_MAX;
    const size_t used = reclaimable == SIZE_MAX ? usage : usage > reclaimable ? usage - reclaimable : 0;
    return limit > used ? limit - used : 0;
}
static size_t memory_v1(const char * root, const char * group) {
    return left_of_memory(group_number(root, group, "memory.limit_in_bytes", ""),
        group_number(root, group, "memory.usage_in_bytes", ""),
        group_number(root, group, "memory.stat", "total_inactive_file "));
}
static size_t memory_v2(const char * root, const char * group) {
    return left_of_memory(group_number(root, group, "memory.max", ""), group_number(root, group, "memory.current", ""),
        group_number(root, group, "memory.stat", "inactive_file "));
}

// CPUs a group has time for
static size_t cpus_of(size_t quota, size_t period) {
    if (quota == SIZE_MAX || period == SIZE_MAX || period == 0 || quota > SIZE_MAX / 2) return SIZE_MAX; // -1: no limit
    return (quota + period - 1) / period;
}
static size_t cpus_v1(const char * root, const char * group) {
    return cpus_of(
        group_number(root, group, "cpu.cfs_quota_us", ""), group_number(root, group, "cpu.cfs_period_us", ""));
}
static size_t cpus_v2(const char * root, const char * group) { // "200000 100000", "max 100000"
    char path[MAX_PATH], line[64] = "";
    const int n = snprintf(path, sizeof(path), "%s/cpu.max", group);
    FILE * f = n < 0 || (size_t) n >= sizeof(path) ? NULL : open_at(root, path);
    unsigned long long quota, period;
    const bool got = f && fgets(line, sizeof(line), f) && sscanf(line, "%llu %llu", &quota, &period) == 2;
    if (f) fclose(f);
    return got ? cpus_of((size_t) quota, (size_t) period) : SIZE_MAX;
}

typedef size_t (*group_value)(const char * root, const char * group);

// the least value of the group folder + path and of all above it; in a container only some of them can be seen
static size_t least_of_groups(const char * root, const char * folder, char * path, group_value value) {
    size_t least = SIZE_MAX;
    for (;;) {
        char group[MAX_PATH];
        const int n = snprintf(group, sizeof(group), "%s%s", folder, path);
        const size_t x = n < 0 || (size_t) n >= sizeof(group) ? SIZE_MAX : value(root, group);
        if (x < least) least = x;
        char * slash = strrchr(path, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

// whether `name` is one of the controllers in "cpu,cpuacct"
static bool is_one_of(const char * list, const char * name) {
    const size_t n = strlen(name);
    for (const char * s = list; *s; s += strcspn(s, ","), s += *s == ',')
        if (strcspn(s, ",") == n && memcmp(s, name, n) == 0) return true;
    return false;
}

// of the groups of this process that have a `controller`
static size_t least_of_all_groups(const char * root, const char * controller, group_value v1, group_value v2) {
    FILE * f = open_at(root, "/proc/self/cgroup");
    char line[MAX_LINE], folder[64];
    size_t least = SIZE_MAX;
    while (f && fgets(line, sizeof(line), f)) { // "4:memory:/a/b", version 2: "0::/a/b"
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        const bool second = names[1] == 0;
        if (!second && !is_one_of(names + 1, controller)) continue;
        snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s%s", second ? "" : "/", second ? "" : controller);
        const size_t x = least_of_groups(root, folder, path, second ? v2 : v1);
        if (x < least) least = x;
    }
    if (f) fclose(f);
    return least;
}

static size_t left_of_address_space(const char * root) {
    struct rlimit r;
    if (getrlimit(RLIMIT_AS, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    const size_t pages = read_number(root, "/proc/self/statm", ""), page = (size_t) sysconf(_SC_PAGESIZE);
    if (pages == SIZE_MAX) return SIZE_MAX;
    return r.rlim_cur > pages * page ? (size_t) r.rlim_cur - pages * page : 0;
}

size_t mra_memory_free(const char * root) {
    const size_t kb = read_number(root, "/proc/meminfo", "MemAvailable:"),
                 groups = least_of_all_groups(root, "memory", memory_v1, memory_v2),
                 space = left_of_address_space(root);
    size_t least = kb == SIZE_MAX ? SIZE_MAX : kb * 1024;
    if (groups < least) least = groups;
    return space < least ? space : least;
}

int mra_cpu_count(const char * root) {
    long n = 0;
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) n = CPU_COUNT(&set);
#endif
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t quota = least_of_all_groups(root, "cpu", cpus_v1, cpus_v2);
    if (quota < (size_t) n) n = (long) quota;
    return n < 1 ? 1 : n > GGML_MAX_N_THREADS ? GGML_MAX_N_THREADS : (int) n;
}

enum mra_status mra_memory_probe(size_t n, struct mra_error * err) {
    void * volatile p = malloc(n); // volatile: compilers leave out a malloc that is only freed
    const enum mra_status st = p ? MRA_OK : mra_fail(err, MRA_ERR_MEMORY, "no memory for %zu bytes", n);
    free(p);
    return st;
}

static void * wait_for_all(void * gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

enum mra_status mra_threads_probe(int n, struct mra_error * err) {
    if (n < 1) return MRA_OK;
    pthread_t * threads = malloc((size_t) n * sizeof(*threads));
    if (!threads) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int started = 0, rc = 0;
    pthread_mutex_lock(&gate); // all at the same time
    while (started < n && (rc = pthread_create(&threads[started], NULL, wait_for_all, &gate)) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
    if (rc == 0) return MRA_OK;
    return mra_fail(err, MRA_ERR_MEMORY, "only %d of %d threads start: %s", started + 1, n + 1, strerror(rc));
}
