#include "threads.h"

#include "ggml.h"

#include <pthread.h>

enum { COMES_BACK_MS = 200 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mra_threads_user * users;

static double now_ms(void) { return (double) ggml_time_us() * 1e-3; }

void mra_threads_enter(struct mra_threads_user * u) {
    pthread_mutex_lock(&lock);
    if (!u->is_listed) {
        u->next = users;
        users = u;
        u->is_listed = true;
    }
    u->is_inside = true;
    pthread_mutex_unlock(&lock);
}

void mra_threads_leave(struct mra_threads_user * u) {
    pthread_mutex_lock(&lock);
    u->is_inside = false;
    u->left_ms = now_ms();
    pthread_mutex_unlock(&lock);
}

void mra_threads_forget(struct mra_threads_user * u) {
    pthread_mutex_lock(&lock);
    struct mra_threads_user ** p = &users;
    while (*p && *p != u) p = &(*p)->next;
    if (*p) *p = u->next;
    pthread_mutex_unlock(&lock);
}

int mra_threads_share(int n_cpu) {
    int n = 0;
    const double since = now_ms() - COMES_BACK_MS;
    pthread_mutex_lock(&lock);
    for (const struct mra_threads_user * u = users; u; u = u->next) n += u->is_inside || u->left_ms > since;
    pthread_mutex_unlock(&lock);
    return n <= 1 ? n_cpu : n_cpu > n ? n_cpu / n : 1;
}
