// Workers from the outside: this program again, with pipes as its standard input and output.
#include "bench-model.h"

#include <cjson/cJSON.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static enum mra_status read_answer(struct worker * w, cJSON ** reply, struct mra_error * err) {
    char * line = NULL;
    size_t cap = 0;
    const ssize_t n = getline(&line, &cap, w->out);
    cJSON * o = n > 0 ? cJSON_Parse(line) : NULL;
    free(line);
    *reply = NULL;
    if (!o) return mra_fail(err, MRA_ERR_BACKEND, "the process with the model ended (out of memory?)");
    const cJSON * e = cJSON_GetObjectItem(o, "error");
    if (!cJSON_IsString(e)) {
        *reply = o;
        return MRA_OK;
    }
    mra_fail(err, MRA_ERR_ARG, "%s", e->valuestring);
    cJSON_Delete(o);
    return err->code;
}

enum mra_status worker_start(
    struct worker * w, const char * model, int n_threads, bool no_mmap, cJSON ** reply, struct mra_error * err) {
    int to[2] = { -1, -1 }, from[2] = { -1, -1 };
    memset(w, 0, sizeof(*w));
    *reply = NULL;
    signal(SIGPIPE, SIG_IGN); // a worker that died is seen by its missing answer
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0 || (w->pid = fork()) < 0) {
        mra_fail(err, MRA_ERR_BACKEND, "no process: %s", strerror(errno));
        for (int i = 0; i < 2; i++) {
            if (to[i] >= 0) close(to[i]);
            if (from[i] >= 0) close(from[i]);
        }
        w->pid = 0;
        return err->code;
    }
    if (w->pid == 0) {
        char threads[16];
        snprintf(threads, sizeof(threads), "%d", n_threads);
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl("/proc/self/exe", "mra-bench", "model", "-m", model, "-t", threads, "--worker",
            no_mmap ? "--no-mmap" : NULL, (char *) NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    w->in = fdopen(to[1], "w");
    w->out = fdopen(from[0], "r");
    return read_answer(w, reply, err);
}

enum mra_status worker_ask(struct worker * w, cJSON * job, cJSON ** reply, struct mra_error * err) {
    char * line = cJSON_PrintUnformatted(job);
    cJSON_Delete(job);
    *reply = NULL;
    if (!line) return mra_fail(err, MRA_ERR_MEMORY, "out of memory");
    fprintf(w->in, "%s\n", line);
    free(line);
    fflush(w->in);
    return read_answer(w, reply, err);
}

void worker_stop(struct worker * w) {
    if (w->pid <= 0) return;
    if (w->in) fclose(w->in);
    if (w->out) fclose(w->out);
    waitpid(w->pid, NULL, 0);
    memset(w, 0, sizeof(*w));
}
