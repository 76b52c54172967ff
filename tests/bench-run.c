#include "bench-run.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

char out[1 << 16];

const char * fmt(const char * format, ...) {
    static char text[4][2048];
    static int at;
    va_list ap;
    va_start(ap, format);
    char * s = text[at++ % 4];
    vsnprintf(s, sizeof(text[0]), format, ap);
    va_end(ap);
    return s;
}

int run(const char * command) {
    FILE * p = popen(command, "r");
    if (!p) return -1;
    const size_t n = fread(out, 1, sizeof(out) - 1, p);
    out[n] = 0;
    const int st = pclose(p);
    return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

void write_file(const char * path, const void * data, size_t size) {
    FILE * f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

double number(const cJSON * o, const char * name) {
    const cJSON * v = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

cJSON * json_at(int i) {
    const char * s = out;
    for (; i > 0 && s; i--) {
        s = strchr(s, '\n');
        if (s) s++;
    }
    return s && *s ? cJSON_ParseWithOpts(s, NULL, false) : NULL;
}
