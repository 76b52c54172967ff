#include "signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stop;

static void on_signal(int sig) {
    stop = 1;
    signal(sig, SIG_DFL);
}

bool interrupted(void) { return stop != 0; }

void signals_catch(void) {
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    const struct sigaction on = { .sa_handler = on_signal }, // no SA_RESTART: reads must end
        ignore = { .sa_handler = SIG_IGN };
    for (int i = 0; i < 3; i++) {
        struct sigaction old;
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ends[i], &on, NULL); // nohup stays in force
    }
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
}
