#include "bus.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const char * name;

static void say(const char * text) {
    size_t n = strlen(text);
    while (n > 0) {
        const ssize_t w = write(STDERR_FILENO, text, n);
        if (w <= 0) return;
        text += w;
        n -= (size_t) w;
    }
}

// only calls that a signal handler may make
static void on_bus(int sig) {
    (void) sig;
    say(name);
    say(": the model's file was cut short or cannot be read any more (SIGBUS); --no-mmap reads all of it at the "
        "start\n");
    _exit(1);
}

void bus_catch(const char * program) {
    name = program;
    const struct sigaction on = { .sa_handler = on_bus };
    sigaction(SIGBUS, &on, NULL);
}
